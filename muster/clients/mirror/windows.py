"""What tmux and the hooks say together: the list of windows as muster sees it.

Rules: a pane shows the session that its hooks named. Its state is the hooks', but for one: idle
holds only while the screen holds still as well, and `idle_since` is the later of both beginnings.
A session whose hook said idle and whose screen moves is `unknown`: somebody types, or a hook was
missed. A list is what fits into a frame; panes without Claude Code go first.

A window's title is where it stands in tmux (`main:1`), its label the name that a person gave it
(the window option `@muster_label`, else the window's name unless tmux makes that by itself); muster
shows the label where there is one. Rejected: the pane's title, which the program in it sets. It may
be anything (what a session works on, a host's name, as it is by default), and a window's name may
leave muster in a fleet report, which names no host and tells nothing of a conversation but titles
of summaries.
"""

from collections.abc import Sequence
from datetime import datetime

import attrs
import msgspec

from muster.clients.mirror.model import Sessions, SessionState, State
from muster.clients.mirror.repositories import Repositories
from muster.clients.mirror.stillness import Stillness
from muster.clients.mirror.tmux import Pane

WINDOWS_MAX = 500
PANES_MAX = 20
TITLE_CHARACTERS_MAX = 200
LABEL_CHARACTERS_MAX = 80
CWD_CHARACTERS_MAX = 1024
LIST_BYTES_MAX = 250_000
"""Of the list in JSON: a frame has at most 256 KiB, and says a little more than that."""


@attrs.frozen(kw_only=True)
class PaneView:
    """A pane of the list, with the wire's names."""

    pane: str
    claude_session: str | None
    active: bool
    state: str
    idle_since: datetime | None
    cwd: str | None
    repo: str | None


@attrs.frozen(kw_only=True)
class WindowView:
    """A window of the list, with the wire's names."""

    window: str
    title: str
    label: str | None
    panes: tuple[PaneView, ...]


@attrs.frozen(kw_only=True)
class Listing:
    """All windows, and how many panes were left out to fit."""

    windows: tuple[WindowView, ...] = ()
    left_out: int = 0


@attrs.frozen(kw_only=True)
class Seen:
    """A pane with the session in it, at one moment."""

    pane: Pane
    session: SessionState | None

    @property
    def says_idle(self) -> bool:
        """Whether the session's own hook said idle."""
        return self.session is not None and self.session.state is State.IDLE


def see(panes: Sequence[Pane], sessions: Sessions) -> tuple[Seen, ...]:
    """The sessions in the panes, all of one moment."""
    return tuple(Seen(pane=pane, session=sessions.state_of(pane.place)) for pane in panes)


def idle_since(seen: Seen, stillness: Stillness, now: datetime) -> datetime | None:
    """Since when the pane is idle by both, its hook and its screen; None when it is not."""
    if seen.session is None or not seen.says_idle:
        return None
    held = stillness.of(seen.pane.place)
    still = None if held is None else held.still_since(now)
    return None if still is None else min(now, max(still, seen.session.since))


def compose(
    seen: Sequence[Seen], stillness: Stillness, repositories: Repositories, now: datetime
) -> Listing:
    """The list of all windows, in tmux's order, as much of it as fits."""
    windows: dict[str, list[Seen]] = {}
    for each in seen:
        windows.setdefault(each.pane.window, []).append(each)
    views = tuple(
        WindowView(
            window=window,
            title=_title(panes[0].pane),
            label=_label(panes[0].pane),
            panes=tuple(_view(each, stillness, repositories, now) for each in panes),
        )
        for window, panes in windows.items()
    )
    return fit(views)


def fit(views: tuple[WindowView, ...]) -> Listing:
    """What fits: at most 500 windows of 20 panes in 250,000 bytes, those with Claude Code first."""
    total = sum(len(view.panes) for view in views)
    if _fits(views):
        return Listing(windows=views)
    kept = [
        attrs.evolve(view, panes=panes[:PANES_MAX])
        for view in views
        if (panes := tuple(pane for pane in view.panes if pane.claude_session is not None))
    ][:WINDOWS_MAX]
    while not _fits(tuple(kept)):
        # A tenth at a time, the last ones: each try writes the whole list once.
        kept = kept[: len(kept) * 9 // 10]
    return Listing(windows=tuple(kept), left_out=total - sum(len(view.panes) for view in kept))


def _fits(views: tuple[WindowView, ...]) -> bool:
    if len(views) > WINDOWS_MAX or any(len(view.panes) > PANES_MAX for view in views):
        return False
    return len(msgspec.json.encode(views)) <= LIST_BYTES_MAX


def told_folder(folder: str | None) -> str | None:
    """The folder as muster takes it; None for one that is not absolute, too long or no UTF-8."""
    if folder is None or not folder.startswith("/") or len(folder) > CWD_CHARACTERS_MAX:
        return None
    try:
        return folder if b"\0" not in folder.encode() else None
    except UnicodeEncodeError:
        return None


def cleaned(text: str, characters_max: int) -> str:
    """The text on one line, without what is not shown, up to the limit."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line[:characters_max].rstrip()


def _title(pane: Pane) -> str:
    return cleaned(f"{pane.session_name}:{pane.window_index}", TITLE_CHARACTERS_MAX)


def _label(pane: Pane) -> str | None:
    given = "" if pane.renamed_by_tmux else pane.window_name
    return cleaned(pane.label, LABEL_CHARACTERS_MAX) or cleaned(given, LABEL_CHARACTERS_MAX) or None


def _view(seen: Seen, stillness: Stillness, repositories: Repositories, now: datetime) -> PaneView:
    session = seen.session
    since = idle_since(seen, stillness, now)
    state = State.UNKNOWN if session is None else session.state
    if state is State.IDLE and since is None:
        state = State.UNKNOWN
    cwd = told_folder((session.cwd if session is not None else None) or seen.pane.folder)
    return PaneView(
        pane=seen.pane.place.pane,
        claude_session=None if session is None else session.claude_session,
        active=seen.pane.active,
        state=state.value,
        idle_since=since,
        cwd=cwd,
        repo=None if cwd is None or session is None else repositories.of(cwd),
    )
