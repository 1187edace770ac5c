"""What a row of the table works with: a fake muster, folders, the plugin, and patience."""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from muster.clients.plugin_test.child import Child
from muster.clients.plugin_test.fake import Came, Door, Draft, FakeMuster
from muster.clients.plugin_test.http import open_http
from muster.clients.plugin_test.spool import Spool

LOOK_SECONDS = 0.02
CLOSE_LOOK_SECONDS = 0.001
QUIET_SECONDS = 1.0
"""How long nothing may happen where nothing should."""


class Broken(Exception):
    """The plugin does not keep a duty; the text says what was seen."""


@attrs.define(kw_only=True)
class Stage:
    """One row's own world."""

    fake: FakeMuster
    spool: Spool
    child: Child
    patience_seconds: float
    notes: list[str] = attrs.field(factory=list)

    async def start(self) -> None:
        """Start the plugin, or start it again."""
        await self.child.start()

    async def kill(self) -> None:
        """Kill -9, and wait until it is gone."""
        self.child.kill()
        await self.child.ended(self.patience_seconds)

    async def bring(self, *, characters: int = 0) -> str:
        """Let a message come in, filled up to `characters`; its mark."""
        mark = f"in{secrets.token_hex(6)}"
        text = f"Message {mark} of the test: does noon work?\n"
        while len(text) < characters:
            text += f"Line {len(text)} of a message that is too long for muster.\n"
        await trio.to_thread.run_sync(self.spool.bring, text)
        return mark

    def posts_of(self, mark: str) -> list[Came]:
        """The posts that carry the message with this mark."""
        return [
            came
            for came in self.fake.at_door(Door.MESSAGES)
            if mark in f"{came.body.get('body')} {came.body.get('subject')}"
        ]

    def stored_id(self, mark: str) -> str | None:
        """The external_id under which muster has the message with this mark."""
        for external_id, body in self.fake.stored.items():
            if mark in f"{body.get('body')} {body.get('subject')}":
                return external_id
        return None

    async def until_stored(self, mark: str) -> str:
        """Wait until muster has a message; its external_id."""
        await self.until(lambda: self.stored_id(mark), "a message in the inbox never came")
        external_id = self.stored_id(mark)
        assert external_id is not None
        return external_id

    async def receive(self) -> str:
        """Start the plugin and have it bring a message; its external_id."""
        mark = await self.bring()
        await self.start()
        return await self.until_stored(mark)

    def approve(self, external_id: str) -> tuple[Draft, str]:
        """Approve a reply; the reply and its mark."""
        mark = f"out{secrets.token_hex(6)}"
        return self.fake.approve(external_id, f"Reply {mark} of the test: noon works."), mark

    async def count(self, mark: str) -> int:
        """How often the reply with this mark was sent."""
        return await trio.to_thread.run_sync(self.spool.count, mark)

    async def until_sent(self, mark: str, *, why: str, close: bool = False) -> None:
        """Wait until a reply lies in the outbox; `close` looks every millisecond."""

        async def there() -> bool:
            return await self.count(mark) > 0

        await self.until(there, why, look_seconds=CLOSE_LOOK_SECONDS if close else LOOK_SECONDS)

    async def until(
        self,
        there: Callable[[], object],
        why: str,
        *,
        look_seconds: float = LOOK_SECONDS,
        more_seconds: float = 0.0,
    ) -> None:
        """Wait until `there` is true; Broken with `why` when it stays untrue."""
        with trio.move_on_after(self.patience_seconds + more_seconds):
            while True:
                seen = there()
                if isinstance(seen, Awaitable):
                    seen = await seen
                if seen:
                    return
                if self.child.code is not None:
                    raise Broken(f"{why}: the plugin ended with code {self.child.code}")
                await trio.sleep(look_seconds)
        raise Broken(f"{why} (waited {self.patience_seconds + more_seconds:g} s)")

    async def until_result(self, draft: Draft, *, ok: bool = True) -> None:
        """Wait until muster has recorded the result of a reply, which must be `ok`."""
        await self.until(
            lambda: draft.draft_id in self.fake.results,
            f"no result of draft {draft.draft_id} was recorded",
        )
        if self.fake.results[draft.draft_id]["ok"] is not ok:
            raise Broken(f"the result of draft {draft.draft_id} says ok: {not ok}")

    async def require_once(self, mark: str, what: str) -> None:
        """Require that the reply with this mark was sent exactly once."""
        count = await self.count(mark)
        if count != 1:
            raise Broken(f"{what} lies in the outbox {count} times")

    async def quiet(self, seconds: float = QUIET_SECONDS) -> None:
        """Give the plugin time for what it should not do."""
        await trio.sleep(seconds)


@asynccontextmanager
async def open_stage(
    command: Sequence[str], *, patience_seconds: float, under: Path | None = None
) -> AsyncIterator[Stage]:
    """Set up one row's world; it ends with the block, the plugin with it."""
    with tempfile.TemporaryDirectory(prefix="muster-plugin-test-", dir=under) as top:
        fake = FakeMuster()
        spool = Spool(folder=Path(top))
        async with open_http(fake.handle, fake.sent) as port:
            places = spool.places()
            child = Child(
                command=[_filled(word, places) for word in command],
                environ=_environ(places, f"http://127.0.0.1:{port}", fake.token),
                folder=Path.cwd(),
                log=Path(top) / "log",
            )
            stage = Stage(
                fake=fake, spool=spool, child=child, patience_seconds=patience_seconds
            )  # fmt: skip
            try:
                yield stage
            finally:
                await child.close()


def _filled(word: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        word = word.replace(f"{{{name}}}", path)
    return word


def _environ(places: dict[str, str], url: str, token: str) -> dict[str, str]:
    """The tester's own environment without muster's settings, which would be this machine's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    folders = {f"PLUGIN_{name.upper()}": path for name, path in places.items()}
    return {**kept, **folders, "MUSTER_URL": url, "MUSTER_PLUGIN_TOKEN": token}
