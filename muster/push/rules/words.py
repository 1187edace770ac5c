"""What a push says: muster's own words, chosen by kind (plugins: "Replying: drafts you approve").

No text of a message, a draft, an ask or a task is among them: a push passes through the hands of
others and is shown on a locked screen. That the sender of a message is not verified is said where
the turn's fence says it (plugins: "Who wrote it").
"""

import enum
from typing import assert_never

import attrs

UNVERIFIED = "Unverified sender"
ITEMS_MAX = 200  # that a tab says it shows

Item = tuple[str, int]
"""What may be pushed: its kind and id."""


class Kind(enum.Enum):
    """What an owner is told of; a test only says that the device is reached."""

    DRAFT = "draft"
    ASK = "ask"
    TASK = "task"
    TEST = "test"


CHOICES = (Kind.DRAFT, Kind.ASK, Kind.TASK)


@attrs.frozen(kw_only=True)
class Note:
    """What is shown. `path` is where a tap leads; a note replaces the one of the same `tag`."""

    tag: str
    title: str
    body: str
    path: str
    urgent: bool


def words(kind: Kind, item_id: int | None, *, unverified: bool = False) -> Note:
    """The note about an item; `unverified` says that a draft answers such a message."""
    tag = "test" if item_id is None else f"{kind.value}-{item_id}"
    match kind:
        case Kind.DRAFT:
            return Note(
                tag=tag,
                title="A reply draft awaits your approval",
                body=UNVERIFIED if unverified else "Read it, then approve or reject it.",
                path=f"/drafts/{item_id}",
                urgent=True,
            )
        case Kind.ASK:
            return Note(
                tag=tag,
                title="A question awaits your answer",
                body="Read it, then answer or dismiss it.",
                path=f"/asks/{item_id}",
                urgent=True,
            )
        case Kind.TASK:
            return Note(
                tag=tag,
                title="New task",
                body="A task was filed for you.",
                path=f"/tasks/{item_id}",
                urgent=False,
            )
        case Kind.TEST:
            return Note(
                tag=tag,
                title="muster reaches this device",
                body="You asked for this test.",
                path="/settings#notifications",
                urgent=True,
            )
        case _:
            assert_never(kind)


def read_items(text: str) -> frozenset[Item]:
    """Read `draft:17 ask:3`; what is no item is left out."""
    nouns = {kind.value for kind in CHOICES}
    found = set()
    for word in text.split()[:ITEMS_MAX]:
        noun, _, number = word.partition(":")
        if noun in nouns and number.isascii() and number.isdigit() and len(number) < 19:
            found.add((noun, int(number)))
    return frozenset(found)
