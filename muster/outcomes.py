"""What a decision says: the row as it is now, the facts for the audit log, the hints to send.

`Transaction.save` writes all three of a Changed in one call, so that none can be forgotten.
"""

import enum
from collections.abc import Mapping
from typing import Generic, TypeVar

import attrs

Row = TypeVar("Row", covariant=True)  # noqa: PLC0105 - named after what it stands for


class HintKind(enum.Enum):
    """Where to look again. A hint is never the only copy of a fact; `id` says of what."""

    MESSAGE_QUEUED = "message.queued"  # a message
    DRAFT_CLAIMABLE = "draft.claimable"  # a plugin: one of its waiters may claim
    PLUGIN_REVOKED = "plugin.revoked"  # a plugin
    AGENT_CHANGED = "agent.changed"  # an agent: revoked, replaced, or connected elsewhere
    USER_CHANGED = "user.changed"  # a user: disabled or enabled
    WORDS_QUEUED = "words.queued"  # an agent: words wait for it
    CLAIM_BEGUN = "claim.begun"  # a user: the chief may be offered what is queued
    HOST_DOUBTED = "host.doubted"  # a host: retired, or connected elsewhere
    SEND_QUEUED = "send.queued"  # a mirrored session: its send queue is not what it was
    ROUTE_ENDED = "route.ended"  # a route: a hand-back is owed, or an answer may be relayed
    RESUME_WANTED = "resume.wanted"  # a resume: a host is to be asked, or a window may be there
    # Whoever shows one of these, or tells somebody about it, looks again.
    MESSAGE_CHANGED = "message.changed"
    DRAFT_CHANGED = "draft.changed"
    TASK_CHANGED = "task.changed"
    ASK_CHANGED = "ask.changed"
    PLUGIN_CHANGED = "plugin.changed"
    CONVERSATION_CHANGED = "conversation.changed"
    SESSION_CHANGED = "session.changed"  # a browser session: it was opened or ended
    DEVICE_CHANGED = "device.changed"  # where an owner is pushed to: added, changed or removed
    HOST_CHANGED = "host.changed"  # a machine that mirrors: added, gone, or its list of windows
    MIRRORED_CHANGED = "mirrored.changed"  # a mirrored session, its send queue or its focus
    ROUTE_CHANGED = "route.changed"


@attrs.frozen(kw_only=True)
class Hint:
    """A message to whoever caches this: go and look. It carries ids alone."""

    kind: HintKind
    owner_id: int
    id: int


SHOWN = frozenset(kind for kind in HintKind if kind.value.endswith(".changed")) - {
    HintKind.AGENT_CHANGED,
    HintKind.USER_CHANGED,
}
_BY_NOUN = {kind.value.removesuffix(".changed"): kind for kind in SHOWN}


@attrs.frozen(kw_only=True)
class Fact:
    """One row for the audit log: what was done (`plugin.draft.filed`), to what (`draft:17`)."""

    action: str
    subject: str
    data: Mapping[str, object] = attrs.field(factory=dict)


def hint_of(fact: Fact, *, owner_id: int) -> Hint | None:
    """The hint that a fact's subject is not what it was, for whoever shows it."""
    noun, _, number = fact.subject.partition(":")
    kind = _BY_NOUN.get(noun)
    return None if kind is None else Hint(kind=kind, owner_id=owner_id, id=int(number))


@attrs.frozen(kw_only=True)
class Changed(Generic[Row]):
    """The command was accepted: `row` is to be written, with its facts and hints."""

    row: Row
    facts: tuple[Fact, ...] = ()
    hints: tuple[Hint, ...] = ()


@attrs.frozen(kw_only=True)
class Unchanged(Generic[Row]):
    """The command was carried out before: the row already says so."""

    row: Row
