"""What a fleet report tells, and what it leaves out (plugins: "A fleet-report request").

A report is about a window of time. One kind is the chief's own, of at most 32 KiB. The other leaves
muster: at most 16 KiB, and narrowed to the sessions whose working directory lies in one of the
`paths`. It is made in two steps, so that caps count only what may be described:

    choose   which sessions: first the directory decides, then SESSIONS_MAX
    compose  what is told of them, and how many of them fit

Narrowed, a session whose directory is not known is left out and counted, one elsewhere is left out
and not mentioned; no host has a name; of titles only summaries are told, for the first line of a
prompt is what a person typed; and what looks like a secret is cut out (muster/fleet/secrets.py). A
directory is never told, and neither is a repository that was seen in a directory outside.

What is left out for its size: the sessions that were about nothing for longest go first. Where the
first alone is too large, its oldest titles go, then its pull requests. Each is counted.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import attrs

from muster.fleet.requests import REPORT_TYPE, VERSION, Span, encode
from muster.fleet.secrets import cut
from muster.names import normal_path

SESSIONS_MAX: Final = 200
TITLES_MAX: Final = 20  # of one session
PULL_REQUESTS_MAX: Final = 50  # of one session
REPLY_BYTES_MAX: Final = 16 * 1024
TOOL_BYTES_MAX: Final = 32 * 1024


class Kind(enum.Enum):
    """A mirrored session or an agent."""

    MIRROR = "mirror"
    AGENT = "agent"


class State(enum.Enum):
    """What a session does now."""

    ACTIVE = "active"
    WAITING = "waiting"
    ENDED = "ended"


@attrs.frozen(kw_only=True)
class Session:
    """A session or an agent that was there in the window.

    `directory` is what its transcript last named, `repo_directory` where `repo` was seen. `name` is
    its window's own, empty once no window shows it. `active_at`: when its newest title of the
    window was written, or, without one, when it was last seen.
    """

    id: int
    kind: Kind
    subject: str
    name: str
    host: str
    repo: str | None
    repo_directory: str | None
    state: State
    first_seen_at: datetime
    last_seen_at: datetime
    directory: str | None
    titled_at: datetime | None

    @property
    def key(self) -> tuple[Kind, int]:
        """What tells it from all others; of two agents one after the other may have a name."""
        return self.kind, self.id

    @property
    def active_at(self) -> tuple[bool, datetime]:
        """When it was last about something; one that was about nothing comes before all others."""
        return self.titled_at is not None, self.titled_at or self.last_seen_at


@attrs.frozen(kw_only=True)
class Work:
    """What a session did in the window: the newest first, and how many there were in all.

    `prompts`: titles that may not be told, being first lines of prompts.
    """

    titles: tuple[tuple[str, datetime], ...] = ()
    titles_in_all: int = 0
    prompts: int = 0
    pull_requests: tuple[str, ...] = ()
    pull_requests_in_all: int = 0


@attrs.frozen(kw_only=True)
class Choice:
    """The sessions to describe, the most recently active first, and what was left out before.

    `paths` is None for a report that is not narrowed.
    """

    sessions: tuple[Session, ...]
    omitted: int
    unknown: int
    paths: tuple[str, ...] | None


@attrs.frozen(kw_only=True)
class About:
    """What a report is on: its window, whose request it answers, and what was away meanwhile."""

    span: Span
    request_id: str | None
    generated_at: datetime
    hosts: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    kept_since: datetime | None = None  # titles before are gone, if the window begins earlier


def is_under(directory: str | None, paths: Iterable[str]) -> bool | None:
    """Whether a directory is one of the paths or inside of one; None if nobody knows where it is.

    On a component's boundary. One that goes up again could be anywhere, so it is not known.
    """
    if directory is None or not directory.startswith("/") or ".." in directory.split("/"):
        return None
    normal = normal_path(directory)
    return any(normal == path or normal.startswith(f"{path}/") for path in paths)


def choose(sessions: Iterable[Session], paths: Sequence[str] | None) -> Choice:
    """Which sessions to describe: all, or those under `paths`; at most SESSIONS_MAX."""
    ranked = sorted(sessions, key=lambda one: (*one.active_at, one.id), reverse=True)
    unknown = 0
    if paths is not None:
        places = [(one, is_under(_directory(one), paths)) for one in ranked]
        unknown = sum(place is None for _, place in places)
        ranked = [one for one, place in places if place]
    return Choice(
        sessions=tuple(ranked[:SESSIONS_MAX]),
        omitted=len(ranked[SESSIONS_MAX:]),
        unknown=unknown,
        paths=None if paths is None else tuple(paths),
    )


def compose(
    choice: Choice, works: Mapping[tuple[Kind, int], Work], about: About, *, bytes_max: int
) -> dict[str, object]:
    """The report, of at most `bytes_max` bytes as `encode` writes it; `works` are by key."""
    entries = [_entry(one, works.get(one.key, Work()), choice.paths) for one in choice.sessions]
    while True:
        document = _document(choice, entries, about)
        over = len(encode(document)) - bytes_max
        if over <= 0:
            return document
        if len(entries) > 1:
            entries = entries[: _fitting(entries, over)]
        else:
            assert entries, "a report without sessions is small"
            entries = [_smaller(entries[0])]


@attrs.frozen(kw_only=True)
class _Entry:
    """A session as it is told."""

    document: dict[str, object]
    titles: tuple[dict[str, object], ...]
    pull_requests: tuple[str, ...]
    titles_left: int
    prompts: int
    pull_requests_left: int
    removed: int

    @property
    def whole(self) -> dict[str, object]:
        return {
            **self.document,
            "focus": list(self.titles),
            "prs": list(self.pull_requests),
        }


class _Censor:
    """Cuts texts where the report leaves muster, and counts."""

    def __init__(self, *, cuts: bool) -> None:
        self._cuts = cuts
        self.removed = 0

    def __call__(self, text: str) -> str:
        if not self._cuts:
            return text
        found = cut(text)
        self.removed += found.removed
        return found.text


def _entry(session: Session, work: Work, paths: tuple[str, ...] | None) -> _Entry:
    narrow = paths is not None
    told = _Censor(cuts=narrow)
    repo = session.repo
    if paths is not None and not is_under(session.repo_directory, paths):
        repo = None
    document: dict[str, object] = {
        "id": session.subject,
        "kind": session.kind.value,
        "name": told(session.name),
        "host": "" if narrow else session.host,
        "repo": None if repo is None else told(repo),
        "state": session.state.value,
        "first_seen": utc(session.first_seen_at),
        "last_seen": utc(session.last_seen_at),
    }
    titles: list[dict[str, object]] = [
        {"title": told(title), "at": utc(at)} for title, at in work.titles[:TITLES_MAX]
    ]
    pull_requests = [told(one) for one in work.pull_requests[:PULL_REQUESTS_MAX]]
    return _Entry(
        document=document,
        titles=tuple(titles),
        pull_requests=tuple(pull_requests),
        titles_left=work.titles_in_all - len(titles),
        prompts=work.prompts,
        pull_requests_left=work.pull_requests_in_all - len(pull_requests),
        removed=told.removed,
    )


def _document(choice: Choice, entries: Sequence[_Entry], about: About) -> dict[str, object]:
    narrow = choice.paths is not None
    echoed = {} if about.request_id is None else {"request_id": about.request_id}
    return {
        "type": REPORT_TYPE,
        "v": VERSION,
        **echoed,
        "generated_at": utc(about.generated_at),
        "window": about.span.document,
        "coverage": {
            "sessions": len(entries),
            "omitted": choice.omitted + len(choice.sessions) - len(entries),
            "hosts": [] if narrow else list(about.hosts),
            "gaps": _gaps(choice, entries, about),
        },
        "sessions": [entry.whole for entry in entries],
    }


def _gaps(choice: Choice, entries: Sequence[_Entry], about: About) -> list[str]:
    left = sum(entry.titles_left for entry in entries)
    prompts = sum(entry.prompts for entry in entries)
    pull_requests = sum(entry.pull_requests_left for entry in entries)
    removed = sum(entry.removed for entry in entries)
    gaps = [
        (choice.unknown, "left out, as the working directory is not known", "session"),
        (
            left,
            f"left out: at most the newest {TITLES_MAX} of a session are told, if there is room",
            "focus title",
        ),
        (prompts, "left out: the first line of a prompt is no summary", "focus title"),
        (
            pull_requests,
            f"left out: at most {PULL_REQUESTS_MAX} of a session are told, if there is room",
            "pull request",
        ),
        (removed, "cut out, as they look like secrets", "string"),
    ]
    if choice.paths is not None:
        gaps.append((len(about.offline), "offline now", "mirror host"))
    told = [f"{_count(count, of)} {what}" for count, what, of in gaps if count]
    if choice.paths is None:
        told += [f"The mirror host {host} is offline now" for host in about.offline]
    if about.kept_since is not None:
        told.append(f"Focus titles before {utc(about.kept_since)} are not kept")
    return [f"{gap}." for gap in told]


def _count(count: int, of: str) -> str:
    return f"{count} {of}" if count == 1 else f"{count} {of}s"


def _fitting(entries: Sequence[_Entry], over: int) -> int:
    """How many entries to try next, when those that there are take `over` bytes too many."""
    kept = len(entries)
    while kept > 1 and over > 0:
        kept -= 1
        over -= len(encode(entries[kept].whole)) + 1
    return kept


def _smaller(entry: _Entry) -> _Entry:
    if entry.titles:
        return attrs.evolve(entry, titles=entry.titles[:-1], titles_left=entry.titles_left + 1)
    assert entry.pull_requests, "a session without titles and pull requests is small"
    return attrs.evolve(
        entry,
        pull_requests=entry.pull_requests[:-1],
        pull_requests_left=entry.pull_requests_left + 1,
    )


def _directory(session: Session) -> str | None:
    # An agent works where nobody sees.
    return session.directory if session.kind is Kind.MIRROR else None


def utc(at: datetime) -> str:
    """A time as reports write it (RFC 3339)."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
