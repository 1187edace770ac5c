"""The actor that pushes: it works from rows, and a hint only makes it look sooner.

A look at an owner writes what is to be pushed and tells which devices something is due for; each of
these gets a task of its own, which sends one push after the other, so that a slow device holds up
nobody else. Every SWEEP_SECONDS it looks at all owners who have a device: so a lost hint costs a
push that long at most, and a push that another server was killed with is sent from here once its
lease is over.

Rejected: an actor for each owner. Between two pushes an owner has nothing that needs one, and most
owners have no device.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from actors import Actor
from muster.errors import Unavailable
from muster.pg.database import Database
from muster.principals import Muster, Node, System
from muster.push import operations
from muster.push.dial import Dialler, open_dialler
from muster.push.operations import Passed, Plan, SettlePush, Taken, TakeNext
from muster.push.presence import Presence
from muster.push.sinks import make_request
from muster.push.store.devices import PushKey

SWEEP_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 4.0
SENDING_MAX: Final = 16
TIMERS_MAX: Final = 500


@attrs.frozen(kw_only=True)
class Look:
    """Something of this owner's may be to be pushed, or its push be over."""

    owner_id: int
    device_changed: bool = False


@attrs.frozen(kw_only=True)
class Sweep:
    """Look at the next owners who have a device."""

    after_id: int = 0


class Pusher(Actor):
    """Sends what is due, of all owners. `public_url` is known once the server listens."""

    def __init__(
        self, db: Database, presence: Presence, public_url: Callable[[], str]
    ) -> None:
        super().__init__()
        self._db = db
        self._presence = presence
        self._public_url = public_url
        self._listening: set[int] = set()  # owners with a device, as the last sweep found them
        self._sending: dict[int, bool] = {}  # devices that have a task; true: look once more
        self._soon: set[int] = set()  # owners that a timer is armed for
        self._limit = trio.CapacityLimiter(SENDING_MAX)
        self._dialling: trio.Event | None = None  # set once there is a dialler
        self._dialler: Dialler | None = None
        self._key: PushKey | None = None

    async def started(self) -> None:
        """Begin with a sweep: what came while nobody looked is to be pushed now."""
        self.timers.after(0, Sweep(), key="sweep")

    async def handle(self, message: object) -> None:
        """Look at one owner, or at the next of them."""
        match message:
            case Look(owner_id=owner_id, device_changed=device_changed):
                self._soon.discard(owner_id)
                if device_changed or owner_id in self._listening:
                    await self._patiently(self._look, owner_id)
            case Sweep(after_id=after_id):
                await self._patiently(self._sweep, after_id)
            case _:
                raise AssertionError(message)

    async def _patiently(self, work: Callable[[int], Awaitable[None]], number: int) -> None:
        """Do it, unless the database is away: the next sweep does it then."""
        try:
            await work(number)
        except Unavailable as away:
            self.log.note(f"the database is away: {away.sentence}")
            self.timers.after(SWEEP_SECONDS, Sweep(), key="sweep")

    async def _sweep(self, after_id: int) -> None:
        owners = await self._db.run(System(), operations.list_listening, after_id)
        if after_id == 0:
            self._listening.clear()
        self._listening.update(owners)
        for owner_id in owners:
            await self._db.run(Muster(owner_id=owner_id), operations.forget, None)
            await self._look(owner_id)
        # The next part comes as a message, so that hints are not held up by many owners.
        wait = 0.0 if owners else SWEEP_SECONDS
        last = owners[-1] if owners else 0
        self.timers.after(wait, Sweep(after_id=last), key="sweep")

    async def _look(self, owner_id: int) -> None:
        self._listening.add(owner_id)
        watched = self._presence.watches(owner_id)
        command = Plan(grace_seconds=GRACE_SECONDS if watched else 0.0)
        planned = await self._db.run(Muster(owner_id=owner_id), operations.plan, command)
        for one in planned.due:
            wait = (one.due_at - planned.now).total_seconds()
            if wait <= 0:
                self._serve(owner_id, one.device_id)
            elif wait < SWEEP_SECONDS:
                self._look_again(owner_id, wait)

    def _look_again(self, owner_id: int, seconds: float) -> None:
        """Come back when something is due before the next sweep."""
        if owner_id not in self._soon and len(self._soon) < TIMERS_MAX:
            self._soon.add(owner_id)
            self.timers.after(seconds, Look(owner_id=owner_id), key=("soon", owner_id))

    def _serve(self, owner_id: int, device_id: int) -> None:
        if device_id in self._sending:
            self._sending[device_id] = True
            return
        self._sending[device_id] = False
        self.nursery.start_soon(self._send_all, owner_id, device_id)

    async def _send_all(self, owner_id: int, device_id: int) -> None:
        """Send what is due to one device, one push after the other."""
        sent = 0
        try:
            while True:
                self._sending[device_id] = False
                async with self._limit:
                    while await self._send_next(owner_id, device_id):
                        sent += 1
                if not self._sending[device_id]:
                    break
        except Unavailable as away:
            self.log.note(f"the database is away: {away.sentence}")
        finally:
            del self._sending[device_id]
        if sent:
            # What is to be tried again has a time by now, and what was decided meanwhile is over.
            look = Look(owner_id=owner_id)
            self.timers.after(0, look, key=("again", device_id))

    async def _send_next(self, owner_id: int, device_id: int) -> bool:
        """Send the next push of a device; False when there is none."""
        principal = Muster(owner_id=owner_id)
        command = TakeNext(device_id=device_id, shown=self._presence.shown(owner_id))
        taken = await self._db.run(principal, operations.take_next, command)
        match taken:
            case None:
                return False
            case Passed():
                return True
            case Taken():
                await self._send(principal, taken)
                return True

    async def _send(self, principal: Muster, taken: Taken) -> None:
        dialler = await self._get_dialler()
        if self._key is None:
            self._key = await self._db.run(Node(), operations.push_key, None)
        outgoing = make_request(taken, self._key, self._public_url())
        answer = await dialler.send(outgoing)
        chance = random.random()  # noqa: S311 - only spreads retries
        command = SettlePush(taken=taken, answer=answer, chance=chance)
        await self._db.run(principal, operations.settle, command)

    async def _get_dialler(self) -> Dialler:
        """The client, opened at the first need: most servers' owners have no device."""
        if self._dialling is None:
            self._dialling = trio.Event()
            self.nursery.start_soon(self._dial, self._dialling)
        await self._dialling.wait()
        assert self._dialler is not None
        return self._dialler

    async def _dial(self, dialling: trio.Event) -> None:
        """Hold the client for as long as this actor lives."""
        async with open_dialler() as dialler:
            self._dialler = dialler
            dialling.set()
            await trio.sleep_forever()
