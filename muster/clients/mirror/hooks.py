"""What the sessions on this machine do, as their hooks left it in the spool, and what they took.

The spool is the truth and is looked at anew every 2 seconds; a hook's word on the socket only makes
that sooner. So nothing is lost while this program is down, and a session's state survives it.

A session is believed as long as its process lives, and it is idle only while it has the terminal;
both are looked up whenever somebody asks. Where Claude Code has ended or was suspended, a shell
would run what is pasted.
"""

import itertools
import os
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs
import trio

from muster.clients.mirror.model import (
    Focus,
    Place,
    Proof,
    SessionState,
    State,
    TellFocus,
    Wake,
)
from muster.clients.mirror.proofs import Proofs, moment
from muster.clients.mirror.spool import (
    SESSION_ID,
    SESSIONS,
    WAKE,
    Kept,
    digest_of,
    has_terminal,
    lives,
    read_session,
)
from muster.clients.mirror.transcripts import Reader, find_transcripts, is_transcript

LOOK_SECONDS: Final = 2.0
PROOF_LOOK_SECONDS: Final = 0.1
KEPT_DAYS: Final = 30
"""How long the file of an ended session stays: its transcript is Claude Code's to forget."""

PROOF_BACK_BYTES_MAX: Final = 16 << 20
TITLE_PROMPTS: Final = 4
_opened = itertools.count()


@attrs.define(eq=False)
class _Followed:
    """A session whose transcript is read: the title that was told of it last."""

    reader: Reader
    told: tuple[str, str] | None = None


class HookedSessions:
    """`Sessions` of the spool `spool`, with the transcripts below `config` (`~/.claude`)."""

    def __init__(self, spool: Path, config: Path, tell: TellFocus) -> None:
        self.changes = Wake()
        self._spool = spool
        self._config = config
        self._tell = tell
        self._files: dict[str, tuple[int, int]] = {}
        self._kept: dict[str, Kept] = {}
        self._here: defaultdict[Place, set[str]] = defaultdict(set)
        self._shown: dict[Place, str] = {}
        self._states: dict[Place, SessionState | None] = {}
        self._followed: dict[str, _Followed] = {}
        self._dirty: set[str] = set()
        self._unread = Wake()
        self._news = trio.Event()
        self._proofs = Proofs()

    def state_of(self, place: Place) -> SessionState | None:
        """The session that the pane shows; None when none that lives is known."""
        session = self._shown.get(place)
        kept = None if session is None else self._kept.get(session)
        if kept is None or not lives(kept):
            return None
        transcript = Path(kept.transcript)
        state = State(kept.doing.state)
        if state is State.IDLE and not has_terminal(kept):
            state = State.UNKNOWN
        return SessionState(
            claude_session=kept.session,
            state=state,
            since=moment(kept.since),
            cwd=kept.cwd if kept.cwd.startswith("/") else None,
            transcript_path=transcript if kept.transcript else None,
        )

    def is_running(self, claude_session: str) -> bool:
        """Whether a process on this machine is known to run the session, in whatever pane."""
        kept = self._kept.get(claude_session)
        return kept is not None and lives(kept)

    async def catch_up(self) -> None:
        """Take in every hook event that was left by now."""
        if self._take_in():
            self._say()
        await trio.lowlevel.checkpoint()

    async def proven(self, claude_session: str, text: str, after: datetime) -> Proof:
        """Wait until the session is seen to have taken `text` at or after `after`."""
        digest = digest_of(text)
        reader: Reader | None = None
        while True:
            news = self._news
            self._look_at(claude_session)
            found = self._proofs.by_hook(self._kept.get(claude_session), digest, after)
            if found is None:
                reader = reader or await trio.to_thread.run_sync(self._reader, claude_session)
                if reader is not None and await trio.to_thread.run_sync(_gained, reader):
                    found = self._proofs.by_transcript(claude_session, reader, text, after)
            if found is not None:
                return found
            with trio.move_on_after(PROOF_LOOK_SECONDS):
                await news.wait()

    async def listen(self, wake: trio.socket.SocketType) -> None:
        """Look at each session that a hook speaks of."""
        while True:
            said = await wake.recv(64)
            session = said.decode(errors="replace")
            if SESSION_ID.fullmatch(session):
                self._look_at(session)

    async def look(self) -> None:
        """Look at all of them now and then, for what was not heard of."""
        while True:
            self._look()
            self._dirty.update(self._shown.values())
            self._unread.set()
            await trio.sleep(LOOK_SECONDS)

    async def follow(self) -> None:
        """Read what the transcripts of the sessions that live gained, and tell new titles."""
        while True:
            await self._unread.wait()
            dirty, self._dirty = self._dirty, set()
            kept = [self._kept[session] for session in dirty if self.is_running(session)]
            await trio.to_thread.run_sync(self._read_transcripts, kept)
            for each in kept:
                self._tell_title(each)
            for session in [each for each in self._followed if not self.is_running(each)]:
                del self._followed[session]

    def _look(self) -> None:
        """Take in what was left; note who has ended, was stopped or came back without a hook."""
        changed = self._take_in()
        states = {place: self.state_of(place) for place in self._shown}
        for place in [place for place, state in states.items() if state is None]:
            self._choose(place)
        if changed or states != self._states:
            self._states = states
            self._say()

    def _take_in(self) -> bool:
        """Read every session's file that changed; whether that says something new."""
        there: set[str] = set()
        changed = False
        for name, stamp in _session_files(self._spool):
            there.add(name)
            if self._files.get(name) != stamp:
                self._files[name] = stamp
                changed = self._read_session(name) or changed
        for name in self._files.keys() - there:
            del self._files[name]
            gone = self._kept.pop(name, None)
            if gone is not None:
                self._choose(_place(gone))
                changed = True
        return changed

    def _look_at(self, session: str) -> None:
        if SESSION_ID.fullmatch(session) and self._read_session(session):
            self._say()

    def _read_session(self, session: str) -> bool:
        """Take in a session's file; whether it says something new."""
        kept, before = read_session(str(self._spool), session), self._kept.get(session)
        if kept is None or kept == before:
            return False
        self._kept[session] = kept
        self._dirty.add(session)
        self._here[_place(kept)].add(session)
        if before is not None and _place(before) != _place(kept):
            self._choose(_place(before))
        self._choose(_place(kept))
        return True

    def _choose(self, place: Place) -> None:
        """The pane shows the session that spoke there last and has not ended."""
        known = [self._kept[each] for each in self._here[place] if each in self._kept]
        living = [kept for kept in known if _place(kept) == place and lives(kept)]
        self._shown.pop(place, None)
        self._here[place] = {kept.session for kept in living}
        if living:
            self._shown[place] = max(living, key=lambda kept: kept.at).session
        else:
            del self._here[place]

    def _say(self) -> None:
        self.changes.set()
        self._unread.set()
        self._news.set()
        self._news = trio.Event()

    def _reader(self, session: str) -> Reader | None:
        """A reader of the session's one transcript; None while there is none, or more than one."""
        path = self._transcript(session)
        return None if path is None else Reader(path, back_bytes_max=PROOF_BACK_BYTES_MAX)

    def _transcript(self, session: str) -> Path | None:
        kept = self._kept.get(session)
        if kept is not None and is_transcript(self._config, session, Path(kept.transcript)):
            return Path(kept.transcript)
        try:
            found = find_transcripts(self._config, session)
        except (OSError, ValueError):
            return None
        return found[0] if len(found) == 1 else None

    def _read_transcripts(self, sessions: Iterable[Kept]) -> None:
        for kept in sessions:
            followed = self._followed.get(kept.session)
            if followed is None:
                path = self._transcript(kept.session)
                if path is None:
                    continue
                reader = Reader(path, prompts_max=TITLE_PROMPTS)
                followed = self._followed[kept.session] = _Followed(reader)
            _gained(followed.reader)

    def _tell_title(self, kept: Kept) -> None:
        followed = self._followed.get(kept.session)
        title = followed.reader.title if followed is not None else None
        if followed is None or title is None:
            return
        telling = (title.title, title.source.value)
        if telling == followed.told:
            return
        followed.told = telling
        cwd = title.cwd or (kept.cwd if kept.cwd.startswith("/") else None)
        at = title.at or datetime.now(UTC)
        self._tell(
            Focus(
                claude_session=kept.session,
                title=title.title,
                source=title.source,
                cwd=cwd,
                at=at,
            )
        )


@asynccontextmanager
async def open_sessions(
    spool: Path, *, home: Path, tell: TellFocus
) -> AsyncIterator[HookedSessions]:
    """The sessions of this user's spool (`spool.spool_folder`), watched while the block runs.

    `home` is the folder in which `.claude` is. Several programs may watch one spool. Raises OSError
    when the spool can't be made or listened at.
    """
    (spool / SESSIONS).mkdir(mode=0o700, parents=True, exist_ok=True)
    _forget_old(spool)
    sessions = HookedSessions(spool, home / ".claude", tell)
    with _wake_socket(spool) as wake:
        async with trio.open_nursery() as nursery:
            await sessions.catch_up()
            nursery.start_soon(sessions.listen, wake)
            nursery.start_soon(sessions.look)
            nursery.start_soon(sessions.follow)
            yield sessions
            nursery.cancel_scope.cancel()


@contextmanager
def _wake_socket(spool: Path) -> Iterator[trio.socket.SocketType]:
    # The path may be too long for an address of a socket; that of an open folder is not.
    folder = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f"{WAKE}{os.getpid()}-{next(_opened)}"
    try:
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake:
            plain = socket.fromfd(wake.fileno(), socket.AF_UNIX, socket.SOCK_DGRAM)
            with plain:
                plain.bind(f"/proc/self/fd/{folder}/{name}")
            (spool / name).chmod(0o600)
            yield wake
    finally:
        with suppress(FileNotFoundError):
            (spool / name).unlink()
        os.close(folder)


def _session_files(spool: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """The sessions that have a file, with what tells its content from another."""
    with os.scandir(spool / SESSIONS) as entries:
        for entry in entries:
            session = entry.name.removesuffix(".json")
            if SESSION_ID.fullmatch(session) and session != entry.name:
                with suppress(FileNotFoundError):
                    there = entry.stat(follow_symlinks=False)
                    yield session, (there.st_mtime_ns, there.st_ino)


def _forget_old(spool: Path) -> None:
    too_old = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
    for path in (spool / SESSIONS).iterdir():
        with suppress(FileNotFoundError):
            if datetime.fromtimestamp(path.stat().st_mtime, UTC) < too_old:
                path.unlink()


def _place(kept: Kept) -> Place:
    return Place(tmux_pid=kept.tmux_pid, pane=kept.pane)


def _gained(reader: Reader) -> bool:
    try:
        return reader.read()
    except OSError:
        return False
