"""The host program's core in this process, between a real tmux and a door that a test plays.

What sessions do is read from the stand-ins' own ledgers, so that a test can say when the hosts
hears of it; the real hooks have tests of their own.
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from muster.clients.coming_back import Backoff
from muster.clients.dial import Closed
from muster.clients.mirror.host import Host
from muster.clients.mirror.model import (
    Place,
    Proof,
    ProofSource,
    Resumes,
    Sessions,
    SessionState,
    State,
    TellFocus,
    Wake,
)
from muster.clients.mirror.tmux import Tmux
from tests.support.claude_pane import ClaudePane, TmuxServer, open_tmux
from tests.support.mirror_door import TOKEN, MirrorDoor, open_door
from tests.support.waiting import until

QUICK = Backoff(least_seconds=0.01, most_seconds=0.05)


@attrs.define(eq=False)
class LedgerSessions:
    """Sessions as the ledgers of stand-ins tell them, once a test says that they are known."""

    tmux: TmuxServer
    tell_focus: TellFocus = lambda _: None
    changes: Wake = attrs.field(factory=Wake)
    known: dict[str, ClaudePane] = attrs.field(factory=dict)
    deaf: bool = False
    without_terminal: bool = False
    proves: bool = True
    _heard: dict[str, SessionState | None] = attrs.field(factory=dict)

    def know(self, claude: ClaudePane) -> None:
        """A hook of this session spoke."""
        self.known[claude.pane] = claude
        self.changes.set()

    def state_of(self, place: Place) -> SessionState | None:
        """What the ledger says; `deaf` ones say what they said before."""
        claude = self.known.get(place.pane)
        if claude is None:
            return None
        if not self.deaf:
            self._heard[place.pane] = _state(claude)
        heard = self._heard.get(place.pane)
        if heard is not None and heard.state is State.IDLE and self.without_terminal:
            return attrs.evolve(heard, state=State.UNKNOWN)
        return heard

    async def hear(self) -> None:
        """Tell of each new line in a ledger, as hooks would."""
        sizes: dict[str, int] = {}

        def hear() -> bool:
            for pane, claude in tuple(self.known.items()):
                ledger = claude.folder / f"{claude.session_id}.jsonl"
                size = ledger.stat().st_size
                if sizes.get(pane) != size:
                    sizes[pane] = size
                    self.changes.set()
            return False

        await until(hear, math.inf)

    async def catch_up(self) -> None:
        """The ledger is read at each question."""
        await trio.lowlevel.checkpoint()

    async def proven(self, claude_session: str, text: str, after: datetime) -> Proof:
        """Wait for the line `submitted` with this text."""

        def shown() -> Proof | None:
            for claude in self.known.values():
                for line in claude.seen("submitted", text=text):
                    at = datetime.fromtimestamp(line["at"], UTC)
                    same = claude.session_id == claude_session and at >= after
                    if same and self.proves:
                        return Proof(source=ProofSource.HOOK, at=at)
            return None

        proof: Proof | None = await until(shown, math.inf)
        assert proof is not None
        return proof


def _state(claude: ClaudePane) -> SessionState | None:
    lines: list[dict[str, Any]] = claude.seen("state")
    if not lines or claude.seen("ended"):
        return None
    return SessionState(
        claude_session=claude.session_id,
        state=State(lines[-1]["to"]),
        since=datetime.fromtimestamp(lines[-1]["at"], UTC),
        cwd=str(claude.cwd),
    )


@attrs.define(eq=False, kw_only=True)
class MirrorStage:
    """A host program that runs, and both of its sides."""

    tmux: TmuxServer
    door: MirrorDoor
    sessions: LedgerSessions
    folder: Path
    told: list[dict[str, object]] = attrs.field(factory=list)
    closed: Closed | None = None
    interactive: bool = True
    program: str = "tmux"
    resumes: Resumes | None = None

    @property
    def host(self) -> Host:
        """The host program as it is set."""

        @asynccontextmanager
        async def open_sessions(tell: TellFocus) -> AsyncIterator[Sessions]:
            self.sessions.tell_focus = tell
            yield self.sessions

        def tell(event: str, **facts: object) -> None:
            self.told.append({"event": event, **facts})

        return Host(
            url=self.door.url,
            token=TOKEN,
            name="box.test",
            folder=self.folder,
            tmux=Tmux(program=self.program, socket=str(self.tmux.socket)),
            interactive=self.interactive,
            open_sessions=open_sessions,
            resumes=self.resumes,
            lines=tell,
            backoff=QUICK,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the host program for as long as the block does."""

        async def run() -> None:
            self.closed = await self.host.run()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            nursery.start_soon(self.sessions.hear)
            await self.door.until("windows")
            yield
            nursery.cancel_scope.cancel()

    async def claude(self, *arguments: str, **given: Any) -> ClaudePane:
        """Start a stand-in whose hooks are heard."""
        claude = await self.tmux.claude(*arguments, **given)
        self.sessions.know(claude)
        return claude

    async def idle_claude(self, *arguments: str, **given: Any) -> ClaudePane:
        """Start a stand-in, and wait until the door was told that it is idle."""
        claude = await self.claude(*arguments, **given)
        await self.door.until_shown(claude)
        return claude


@pytest.fixture
async def mirror(tmp_path: Path) -> AsyncIterator[MirrorStage]:
    """A tmux and a door; the host program is not running yet."""
    async with open_tmux(tmp_path / "box") as tmux, open_door() as door:
        yield MirrorStage(
            tmux=tmux, door=door, sessions=LedgerSessions(tmux), folder=tmp_path / "state"
        )
