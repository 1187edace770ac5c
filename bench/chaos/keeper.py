"""Keeps clients alive: one that was killed, or killed itself, begins its next life.

One that ends otherwise is a fault, which the verdict lists; it is started again all the same.
"""

import signal

import attrs
import trio

from bench.chaos.children import ChaosError, Child

AGAIN_SECONDS = 0.2
STOP_SECONDS = 15.0
FAULTS_MAX = 10


@attrs.define(kw_only=True)
class Keeper:
    """The children that it keeps; `faults` are endings that nobody caused."""

    children: list[Child] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    _closing: bool = False

    async def keep(self, child: Child) -> None:
        """Start a child and see to it until it ends well, or until `close`."""
        self.children.append(child)
        while not self._closing:
            await child.start()
            assert child.process is not None
            code = await child.process.wait()
            child.process = None
            if code == 0:
                return
            if code != -signal.SIGKILL and not self._closing:
                self.faults.append(f"{child.name} ended with {code}: {child.last_words()}")
                if len(self.faults) > FAULTS_MAX:
                    raise ChaosError("\n".join(["too much ends by itself:", *self.faults]))
            await trio.sleep(AGAIN_SECONDS)

    async def close(self) -> None:
        """Tell all to end, and wait for it; those that do not are killed."""
        self._closing = True
        for child in self.children:
            if not child.has_ended:
                child.send(signal.SIGTERM)
        with trio.move_on_after(STOP_SECONDS):
            while any(not child.has_ended for child in self.children):  # noqa: ASYNC110
                await trio.sleep(0.05)
        self.faults += [
            f"{child.name} did not end in {STOP_SECONDS:g} s"
            for child in self.children
            if not child.has_ended
        ]

    async def kill_all(self) -> None:
        """End what still runs, in every ending."""
        for child in self.children:
            await child.kill()
