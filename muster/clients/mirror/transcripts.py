"""Claude Code's transcripts: which is a session's own, what it is about, and what it was told.

A transcript is `projects/<slug of a folder>/<session id>.jsonl` below Claude Code's folder, one
JSON object a line, and only grows. Its form is nobody's promise: what is read here was seen in
version 2.1, and a line of another form is passed over.

- `user` records hold prompts, but results of tools too, texts of commands and of muster's own
  making (`isMeta`), what another agent was told (`isSidechain`), and the summary that a compacted
  conversation goes on from.
- A prompt that came while a turn ran stands in a `queue-operation` and an `attachment` instead.
- `summary`, `ai-title` and `custom-title` records name the conversation. Summaries at the top of a
  file may be those of other conversations: they count once their `leafUuid` is seen.

Names and contents are the world's: the file is opened without following links, in the folder that
it was found in, and every line, file and title has a bound.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import unicodedata2

from muster.clients.mirror.model import FocusSource
from muster.clients.mirror.spool import SESSION_ID, as_members, digest_of, is_moment

TITLE_CHARACTERS_MAX: Final = 120
CHUNK_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 8 << 20
"""A longer line is passed over: a prompt that muster pastes has at most 96 KiB."""

BACK_BYTES_MAX: Final = 256 << 20
"""How much of the end of a long transcript is looked at."""

PROJECTS_MAX: Final = 10_000
PROMPTS_MAX: Final = 64
_PENDING_MAX: Final = 8
_TELLING: Final = (
    b'"type":"user"',
    b'"type":"summary"',
    b'-title"',
    b'"enqueue"',
    b'"queued_command"',
)
_TITLES: Final = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
# What stands in a user record that nobody typed.
_WRAPPED: Final = re.compile(r"<(command-|local-command-|bash-|system-reminder|task-notification)")
_SPACES: Final = re.compile(r"\s+")
_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})


@attrs.frozen(kw_only=True)
class Told:
    """A prompt that stands in the transcript; `text` is whole, `unique` tells it from others."""

    unique: str
    text: str = attrs.field(repr=False)
    at: datetime
    cwd: str | None


@attrs.frozen(kw_only=True)
class Title:
    """What the conversation is about by now."""

    title: str
    source: FocusSource
    cwd: str | None
    at: datetime | None


def slug_of(folder: str) -> str:
    """The name of the folder in which Claude Code files the sessions of `folder`."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


def clean_title(text: str) -> str:
    """The text on one line, without what can't be seen, in at most 120 characters; maybe empty."""
    # A bound before the work; what is cut here could not be shown anyhow.
    shown = "".join(
        " " if character.isspace() else character
        for character in text[: 8 * TITLE_CHARACTERS_MAX]
        if character.isspace() or unicodedata2.category(character) not in _UNSHOWN
    )
    line = _SPACES.sub(" ", shown).strip()
    if len(line) <= TITLE_CHARACTERS_MAX:
        return line
    return f"{line[: TITLE_CHARACTERS_MAX - 1].rstrip()}…"


def find_transcripts(config: Path, session: str) -> tuple[Path, ...]:
    """All transcripts of a session below Claude Code's folder `config` (`~/.claude`).

    More than one means that nobody can say which is meant. Raises ValueError for an id that is
    none, OSError when the folder can't be read.
    """
    if not SESSION_ID.fullmatch(session):
        raise ValueError("a session's id is a UUID in lower case")
    found: list[Path] = []
    projects = config / "projects"
    try:
        entries = os.scandir(projects)
    except FileNotFoundError:
        return ()
    with entries:
        for number, entry in enumerate(entries):
            if number >= PROJECTS_MAX:
                break
            path = projects / entry.name / f"{session}.jsonl"
            if entry.is_dir(follow_symlinks=False) and _is_plain(path):
                found.append(path)
    return tuple(found)


def is_transcript(config: Path, session: str, path: Path) -> bool:
    """Whether a path that a hook named can be the session's transcript."""
    return (
        SESSION_ID.fullmatch(session) is not None
        and path.name == f"{session}.jsonl"
        and path.parent.parent == config / "projects"
        and ".." not in path.parts
        and not path.parent.is_symlink()
        and _is_plain(path)
    )


def _is_plain(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode)


@contextmanager
def open_transcript(path: Path) -> Iterator[int]:
    """Open it for reading, as a file descriptor; OSError for a link and for what is no file."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{path} is no file")
        yield file
    finally:
        os.close(file)


def first_folder(path: Path) -> str | None:
    """The working directory in the first record that has one; OSError when it can't be read."""
    with open_transcript(path) as file:
        head = os.pread(file, CHUNK_BYTES, 0)
    for line in head.split(b"\n"):
        cwd = _members(line).get("cwd")
        if isinstance(cwd, str) and cwd.startswith("/"):
            return cwd
    return None


@attrs.define
class Reader:
    """Reads what a transcript gained since the last time; blocks, so it is called in a thread."""

    path: Path
    back_bytes_max: int = BACK_BYTES_MAX
    prompts_max: int = PROMPTS_MAX
    prompts: list[Told] = attrs.field(factory=list, init=False, repr=False)
    _named: str = attrs.field(default="", init=False)
    _named_at: datetime | None = attrs.field(default=None, init=False)
    _pending: dict[str, str] = attrs.field(factory=dict, init=False)
    _begun: bool = attrs.field(default=False, init=False)
    _inode: int = attrs.field(default=0, init=False)
    _offset: int = attrs.field(default=0, init=False)
    _rest: bytes = attrs.field(default=b"", init=False, repr=False)
    _skipping: bool = attrs.field(default=False, init=False)

    def read(self) -> bool:
        """Take in what is new; whether there was anything. Raises OSError."""
        with open_transcript(self.path) as file:
            there = os.fstat(file)
            if there.st_ino != self._inode or there.st_size < self._offset:
                self._begin_anew(there)
            if there.st_size == self._offset:
                return False
            while self._offset < there.st_size:
                some = os.pread(file, CHUNK_BYTES, self._offset)
                if not some:
                    break
                self._offset += len(some)
                self._take(some)
        return True

    @property
    def title(self) -> Title | None:
        """What the conversation is about: its newest name, else its newest prompt's first line."""
        newest = self.prompts[-1] if self.prompts else None
        cwd = newest.cwd if newest else None
        if self._named:
            at = self._named_at or (newest.at if newest else None)
            return Title(title=self._named, source=FocusSource.SUMMARY, cwd=cwd, at=at)
        for told in reversed(self.prompts):
            lines = (clean_title(line) for line in told.text[:65536].split("\n"))
            line = next((line for line in lines if line), "")
            if line and not _WRAPPED.match(line):
                return Title(title=line, source=FocusSource.PROMPT, cwd=cwd, at=told.at)
        return None

    def _begin_anew(self, there: os.stat_result) -> None:
        self._inode, self._rest, self._begun = there.st_ino, b"", False
        self._offset = max(0, there.st_size - self.back_bytes_max)
        self._skipping = self._offset > 0
        self._pending.clear()
        self.prompts.clear()

    def _take(self, some: bytes) -> None:
        *lines, rest = some.split(b"\n")
        if lines:
            lines[0] = self._rest + lines[0]
            if self._skipping:
                lines, self._skipping = lines[1:], False
            for line in lines:
                self._take_line(line)
            self._rest = rest
        elif not self._skipping:
            self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            self._rest, self._skipping = b"", True

    def _take_line(self, line: bytes) -> None:
        if self._pending:
            self._match_pending(line)
        if not any(mark in line for mark in _TELLING) or b'"tool_result"' in line:
            self._begun = self._begun or b'"type":"assistant"' in line
            return
        record = _members(line)
        kind = record.get("type")
        if kind in _TITLES:
            self._take_title(record, str(kind))
        elif (told := _told(record)) is not None:
            self.prompts.append(told)
            del self.prompts[: -self.prompts_max]
        self._begun = self._begun or kind == "user"

    def _take_title(self, record: dict[str, Any], kind: str) -> None:
        text = record.get(_TITLES[kind])
        title = clean_title(text) if isinstance(text, str) else ""
        leaf = record.get("leafUuid")
        if not title:
            return
        if kind == "summary" and not self._begun and isinstance(leaf, str):
            self._pending[leaf[:64]] = title
            while len(self._pending) > _PENDING_MAX:
                del self._pending[next(iter(self._pending))]
            return
        self._named, self._named_at = title, _moment(record)
        self._pending.clear()

    def _match_pending(self, line: bytes) -> None:
        for leaf, title in list(self._pending.items()):
            if f'"uuid":"{leaf}"'.encode() in line:
                self._named, self._named_at = title, None
                del self._pending[leaf]


def _told(record: dict[str, Any]) -> Told | None:
    """The prompt in a record; None when there is none."""
    if record.get("isSidechain") is True or record.get("isMeta") is True:
        return None
    match record:
        case {"type": "user", "message": {"content": content}}:
            text = None if record.get("isCompactSummary") is True else _text_of(content)
        case {"type": "queue-operation", "operation": "enqueue", "content": content}:
            text = _text_of(content)
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": prompt}}:
            text = _text_of(prompt)
        case _:
            return None
    at, cwd = _moment(record), record.get("cwd")
    if not text or at is None:
        return None
    named = record.get("uuid")
    return Told(
        unique=named if isinstance(named, str) else f"{at.isoformat()} {digest_of(text)}",
        text=text,
        at=at,
        cwd=cwd if isinstance(cwd, str) and cwd.startswith("/") else None,
    )


def _text_of(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [block.get("text") for block in map(as_members, content) if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def _moment(record: dict[str, Any]) -> datetime | None:
    text = record.get("timestamp")
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if at is None or at.tzinfo is None or not is_moment(at.timestamp()):
        return None
    return at.astimezone(UTC)


def _members(line: bytes) -> dict[str, Any]:
    try:
        return as_members(json.loads(line))
    except (ValueError, RecursionError):
        return {}
