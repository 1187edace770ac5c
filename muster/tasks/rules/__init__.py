"""Tasks and what may be done to them (plugins: "one task per upstream record").

A status is one of five, and an owner may move a task from any to any: a board is theirs to tidy.
What matters to programs is whether a task is *open*: not complete, not dismissed, and not the loser
of a merge. A loser is open no more, whatever its status says, and takes no change but comments.

                       open  in_progress  ready_for_review  complete  dismissed  merged away
    Edit               yes   yes          yes               yes       yes        -
    Ungate             yes   yes          yes               yes       yes        -
    Merge, as loser    yes   yes          yes               yes       yes        -
    Merge, as winner   yes   yes          yes               yes       yes        -
    comment            yes   yes          yes               yes       yes        yes
    a plugin's notice  yes   yes          yes               passes by, as if it were not there

`-` is Refused. A merge is final, and a loser can neither win nor lose again: so what was merged
forms trees, without a circle, and the root of each holds the tags of all.

Tags are in their one spelling (`names.normalise_tag`), 20 a task. A tag `gate:…` keeps everything
from being started on a task until somebody removes it. `superseded-by:ID` is written by a merge
alone; it counts for none of the 20.

What can race: two plugins' notices for one key, a notice against the closing or the merge of the
task that carries its key, two merges that would make a circle. All of these hold the owner's board
(`store.lock_board`) from the look to the commit.

Rejected: a unique key on "one open task per key" (an owner may put a plugin's tag on a second task,
and a merge of two is how they mend it; the oldest counts); a table of allowed moves between the
statuses (nobody could say what it protects); taking a loser's tags away from it (they tell what it
was).
"""

import enum
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, assert_never

import attrs

from muster.errors import Invalid, Refused
from muster.names import check_line, count_bytes, namespace_of, normalise_tag
from muster.outcomes import Changed, Fact, Unchanged

TITLE_CHARACTERS_MAX: Final = 512
BODY_BYTES_MAX: Final = 16 * 1024
COMMENT_BYTES_MAX: Final = 16 * 1024
MODEL_CHARACTERS_MAX: Final = 100
TAGS_MAX: Final = 20
GATE: Final = "gate"
SUPERSEDED: Final = "superseded-by"
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")


class Status(enum.Enum):
    """How far the work is."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    READY_FOR_REVIEW = "ready_for_review"
    COMPLETE = "complete"
    DISMISSED = "dismissed"


CLOSED: Final = frozenset({Status.COMPLETE, Status.DISMISSED})


class Shelf(enum.Enum):
    """A part of the board that is more than one status; what was merged away is only on ALL."""

    OPEN = "unfinished"
    ALL = "all"


@attrs.frozen(kw_only=True)
class Task:
    """One task; its tags are sorted."""

    id: int
    owner_id: int
    title: str
    body: str
    status: Status = attrs.field(converter=Status)
    tags: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    repository: str | None
    model: str | None
    message_id: int | None  # the plugin message that it cites
    created_by: str  # as the audit log names who acts
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None
    merged_into: int | None

    @property
    def open(self) -> bool:
        """Whether it waits to be done."""
        return self.status not in CLOSED and self.merged_into is None

    @property
    def gates(self) -> tuple[str, ...]:
        """The tags that keep everything from being started on it."""
        return tuple(tag for tag in self.tags if namespace_of(tag) == GATE)


@attrs.frozen(kw_only=True)
class CreateTask:
    """File a task. Leaves `task.created`."""

    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    repository: str | None = None
    model: str | None = None
    message_id: int | None = None


@attrs.frozen(kw_only=True)
class Edit:
    """Change what is given; None and no tags leave as it is, an empty text is no repository, model.

    Leaves `task.changed`, or `task.ungated` when a gate goes.
    """

    title: str | None = None
    body: str | None = None
    status: Status | None = None
    repository: str | None = None
    model: str | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Ungate:
    """Take every gate away, so that work may be started. Leaves `task.ungated`."""


@attrs.frozen(kw_only=True)
class Lose:
    """It is the same as another task, which lives on. Leaves `task.merged`."""

    winner: Task


@attrs.frozen(kw_only=True)
class Win:
    """Another task was the same: its tags are this one's from now on. Leaves `task.merged`."""

    loser: Task


@attrs.frozen(kw_only=True)
class ListTasks:
    """Which tasks to list, newest first: those below `before_id`, at most 200.

    A status leaves out what was merged away. `text` is looked for in titles and bodies, in capitals
    or not, among the newest 5,000 that the rest allows.
    """

    shelf: Shelf | Status = Shelf.OPEN
    tag: str | None = None
    text: str = ""
    before_id: int | None = None
    limit: int = 50


@attrs.frozen(kw_only=True)
class TagCount:
    """A tag in use, and how many open tasks carry it."""

    tag: str
    tasks: int


@attrs.frozen(kw_only=True)
class Comment:
    """What somebody said about a task. A retracted one is kept, and its text shown to nobody."""

    id: int
    task_id: int
    author: str
    body: str
    created_at: datetime
    retracted_at: datetime | None

    @property
    def shown(self) -> str | None:
        """Its text; None once it is retracted."""
        return self.body if self.retracted_at is None else None


Command = Edit | Ungate | Lose | Win
Outcome = Changed[Task] | Unchanged[Task] | Refused


def decide(task: Task, command: Command, now: datetime) -> Outcome:
    """Apply a checked `command` to `task` as of `now`.

    Refused, not raised, for a loser of a merge, for more than 20 tags and for a merge with itself
    or with a loser. You don't get Refused for what is so already: that is Unchanged.
    """
    now = max(now, task.updated_at)
    if task.merged_into is not None:
        return _merged_already(task)
    row = _after(task, command)
    if isinstance(row, Refused):
        return row
    if len(_own(row.tags)) > TAGS_MAX:
        return Refused(
            f"Task {task.id} would have {len(_own(row.tags))} tags; {TAGS_MAX} are the most.",
            code="too_many_tags",
        )
    if row == task and not isinstance(command, Win):
        return Unchanged(row=task)
    closed_at = (task.closed_at or now) if row.status in CLOSED else None
    row = attrs.evolve(row, updated_at=now, closed_at=closed_at)
    return Changed(row=row, facts=(_fact(task, row, command),))


def _after(task: Task, command: Command) -> Task | Refused:
    match command:
        case Edit():
            return _edited(task, command)
        case Ungate():
            return attrs.evolve(task, tags=_without(task.tags, task.gates))
        case Lose(winner=other) | Win(loser=other) if other.id == task.id:
            return Refused(f"Task {task.id} cannot be merged into itself.", code="merge_self")
        case Lose(winner=winner):
            if winner.merged_into is not None:
                return _merged_already(winner)
            tags = _sorted((*task.tags, f"{SUPERSEDED}:{winner.id}"))
            return attrs.evolve(task, tags=tags, merged_into=winner.id)
        case Win(loser=loser):
            return attrs.evolve(task, tags=_sorted((*task.tags, *_own(loser.tags))))
        case _:
            assert_never(command)


def _edited(task: Task, edit: Edit) -> Task:
    tags = _sorted((*_without(task.tags, edit.remove_tags), *edit.add_tags))
    return attrs.evolve(
        task,
        title=task.title if edit.title is None else edit.title,
        body=task.body if edit.body is None else edit.body,
        status=edit.status or task.status,
        repository=task.repository if edit.repository is None else edit.repository or None,
        model=task.model if edit.model is None else edit.model or None,
        tags=tags,
    )


def _fact(before: Task, after: Task, command: Command) -> Fact:
    """What an audit row says of a change: names of fields, statuses and tags, and no text."""
    data: dict[str, object] = {}
    if after.status is not before.status:
        data["status"] = [before.status.value, after.status.value]
    for name, tags in (
        ("added", _without(after.tags, before.tags)),
        ("removed", _without(before.tags, after.tags)),
    ):
        if tags:
            data[name] = list(tags)
    texts = ("title", "body", "repository", "model")
    changed = [name for name in texts if getattr(before, name) != getattr(after, name)]
    if changed:
        data["fields"] = changed
    match command:
        case Lose(winner=winner):
            data["into"] = winner.id
            action = "task.merged"
        case Win(loser=loser):
            data["from"] = loser.id
            action = "task.merged"
        case Edit() | Ungate():
            action = "task.ungated" if before.gates and not after.gates else "task.changed"
        case _:
            assert_never(command)
    return Fact(action=action, subject=subject(before.id), data=data)


def created(task: Task) -> Fact:
    """The audit fact of a task's filing, which a notification is made from."""
    data: dict[str, object] = {"tags": list(task.tags), "gated": bool(task.gates)}
    if task.message_id is not None:
        data["message"] = task.message_id
    return Fact(action="task.created", subject=subject(task.id), data=data)


def subject(task_id: int) -> str:
    """What a task is called in the audit log."""
    return f"task:{task_id}"


def check_create(command: CreateTask) -> CreateTask:
    """The command with its tags in their one spelling; raises Invalid for a field.

    A title is one line of 1 to 512 characters, a body at most 16 KiB of UTF-8.
    """
    _check_texts(command.title, command.body, command.repository, command.model)
    tags = check_tags(command.tags)
    if len(tags) > TAGS_MAX:
        raise Invalid(f"A task may have {TAGS_MAX} tags.", field="tags")
    return attrs.evolve(command, tags=tags)


def check_edit(command: Edit) -> Edit:
    """The command with its tags in their one spelling; raises Invalid for a field."""
    _check_texts(command.title, command.body, command.repository or None, command.model or None)
    return attrs.evolve(
        command,
        add_tags=check_tags(command.add_tags, field="add_tags"),
        remove_tags=check_tags(command.remove_tags, field="remove_tags"),
    )


def check_tags(tags: Iterable[str], *, field: str = "tags") -> tuple[str, ...]:
    """These tags in their one spelling, each once; raises Invalid, also for a merge's own."""
    normal = [normalise_tag(tag, field=field) for tag in tags]
    if any(namespace_of(tag) == SUPERSEDED for tag in normal):
        raise Invalid(f"Only a merge writes a {SUPERSEDED}: tag.", field=field)
    return _sorted(normal)


def check_comment(text: str) -> None:
    """Raise Invalid unless a comment says something, in at most 16 KiB of UTF-8."""
    if count_bytes(text, field="body") > COMMENT_BYTES_MAX:
        raise Invalid(f"A comment may have {COMMENT_BYTES_MAX} bytes.", field="body")
    if not text.strip():
        raise Invalid("A comment must say something.", field="body")


def check_body(text: str) -> None:
    """Raise Invalid for a task's text over 16 KiB of UTF-8, or one that cannot be kept."""
    if count_bytes(text, field="body") > BODY_BYTES_MAX:
        raise Invalid(f"body may have {BODY_BYTES_MAX} bytes.", field="body")


def _check_texts(
    title: str | None, body: str | None, repository: str | None, model: str | None
) -> None:
    if title is not None:
        check_line(title, field="title", characters_max=TITLE_CHARACTERS_MAX)
    if body is not None:
        check_body(body)
    if repository is not None and _REPOSITORY.fullmatch(repository) is None:
        raise Invalid("A repository is written owner/name.", field="repository")
    if model is not None:
        check_line(model, field="model", characters_max=MODEL_CHARACTERS_MAX)


def _merged_already(task: Task) -> Refused:
    return Refused(
        f"Task {task.id} was merged into task {task.merged_into}.",
        code="task_merged",
        facts={"task_id": task.id, "merged_into": task.merged_into},
    )


def _own(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(tag for tag in tags if namespace_of(tag) != SUPERSEDED)


def _sorted(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(tags)))


def _without(tags: Iterable[str], gone: Iterable[str]) -> tuple[str, ...]:
    left = frozenset(gone)
    return tuple(tag for tag in tags if tag not in left)
