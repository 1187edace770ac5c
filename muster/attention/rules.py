"""Asks and the machine of their lives: a question put before the owner.

An agent, the chief or muster itself asks; only the owner answers. What is stored is a state; a day
after it was asked an `open` one is overdue and counts as expired everywhere, whether or not a sweep
wrote it yet.

    state      Answer       Dismiss    Cancel     Expire
    open       answered     dismissed  cancelled  =
    overdue    -            -          -          expired
    answered   = [1]        -          -          =
    dismissed  -            =          -          =
    cancelled  -            -          =          =
    expired    -            -          -          =

`-` is Refused, `=` is Unchanged. [1] The same words once more (a double click); others are refused.

An agent may cancel what it asked itself. What muster asked about a message (`plugin_message_id`) is
cancelled by muster alone, once the message is disposed of: so no chief can take it from the owner.
Words that the owner writes in an agent's chat answer every ask that this agent has open; `via` is
then `chat`, which tells such an answer from one that was given to the question itself.

What can race: two answers, an answer against a cancel or an expiry (the row lock decides), two asks
for the last of the 50 places (the account's row lock), two sweeps for one message (that lock, and
the unique plugin_message_id in the database).

Rejected: a place that is given up when an agent is retired (its question may still be worth an
answer, and a day is short); buttons with values of their own (what the owner pressed is what they
said).
"""

import enum
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from muster.errors import Invalid, Refused
from muster.names import check_line, count_bytes
from muster.outcomes import Changed, Fact, Unchanged

OPEN_PER_OWNER_MAX: Final = 50
LIFE: Final = timedelta(days=1)
QUESTION_CHARACTERS_MAX: Final = 2000
BUTTONS_MAX: Final = 4
BUTTON_CHARACTERS_MAX: Final = 80
ANSWER_BYTES_MAX: Final = 4096
CHAT: Final = "chat"


class State(enum.Enum):
    """Where an ask stands."""

    OPEN = "open"
    ANSWERED = "answered"
    DISMISSED = "dismissed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class AskedBy(enum.Enum):
    """Whose words the question is."""

    AGENT = "agent"
    CHIEF = "chief"
    MUSTER = "muster"


def _as_buttons(answers: Iterable[str]) -> tuple[str, ...]:
    return tuple(answers)


@attrs.frozen(kw_only=True)
class Ask:
    """A question and what became of it. The question never changes."""

    id: int
    owner_id: int
    asked_by: AskedBy = attrs.field(converter=AskedBy)
    agent_id: int | None  # None for muster's own
    question: str
    answers: tuple[str, ...] = attrs.field(converter=_as_buttons)  # the buttons
    message_id: int | None
    task_id: int | None
    plugin_message_id: int | None  # what muster asks about: answering it settles that message
    state: State = attrs.field(converter=State)
    created_at: datetime
    expires_at: datetime
    answer: str | None  # None too for words of a chat that were too long to be kept here
    answered_via: str | None
    ended_at: datetime | None


@attrs.frozen(kw_only=True)
class AskOwner:
    """Put a question before the owner. Leaves `ask.asked`.

    `answers` are offered as buttons; the owner may always write something else.
    """

    asked_by: AskedBy
    question: str
    answers: tuple[str, ...] = ()
    message_id: int | None = None
    task_id: int | None = None
    plugin_message_id: int | None = None


@attrs.frozen(kw_only=True)
class Answer:
    """The owner says it. Leaves `ask.answered`."""

    ask_id: int
    text: str


@attrs.frozen(kw_only=True)
class Dismiss:
    """The owner takes it away without an answer. Leaves `ask.dismissed`."""

    ask_id: int


@attrs.frozen(kw_only=True)
class Cancel:
    """Its asker needs no answer any more. Leaves `ask.cancelled`."""

    ask_id: int


@attrs.frozen(kw_only=True)
class Expire:
    """Its day is over. Leaves `ask.expired`."""

    ask_id: int


Command = Answer | Dismiss | Cancel | Expire
Outcome = Changed[Ask] | Unchanged[Ask] | Refused

MOVES: Final[Mapping[type[Command], State]] = {
    Answer: State.ANSWERED,
    Dismiss: State.DISMISSED,
    Cancel: State.CANCELLED,
    Expire: State.EXPIRED,
}


def standing(ask: Ask, now: datetime) -> State:
    """What an ask is as of `now`, whether or not a sweep wrote that its day is over."""
    if ask.state is State.OPEN and ask.expires_at <= now:
        return State.EXPIRED
    return ask.state


def decide(ask: Ask, command: Command, now: datetime, *, via: str) -> Outcome:
    """Apply `command` to `ask` as of `now`; `via` is the door that it came through.

    Refused, not raised, when the ask has ended in another way. You don't get Refused for the repeat
    of what ended it, nor for an Expire that comes early or late: those are Unchanged.
    """
    now = max(now, ask.created_at)
    is_open = standing(ask, now) is State.OPEN
    match command:
        case Expire():
            due = ask.state is State.OPEN and not is_open
            return _end(ask, command, ask.expires_at) if due else Unchanged(row=ask)
        case Answer() | Dismiss() | Cancel():
            if is_open:
                return _end(ask, command, now, via=via)
            return Unchanged(row=ask) if _is_repeat(ask, command) else _refuse(ask, now)
        case _:
            assert_never(command)


def _end(ask: Ask, command: Command, at: datetime, *, via: str | None = None) -> Changed[Ask]:
    target = MOVES[type(command)]
    ended = attrs.evolve(ask, state=target, ended_at=at)
    if isinstance(command, Answer):
        answer = command.text if _fits(command.text) else None
        ended = attrs.evolve(ended, answer=answer, answered_via=via)
    return Changed(row=ended, facts=(Fact(action=f"ask.{target.value}", subject=subject(ask.id)),))


def _is_repeat(ask: Ask, command: Command) -> bool:
    if ask.state is not MOVES[type(command)]:
        return False
    return not isinstance(command, Answer) or ask.answer == command.text


def _refuse(ask: Ask, now: datetime) -> Refused:
    state = standing(ask, now).value
    return Refused(
        f"Ask {ask.id} is {state} already.",
        code="ask_state",
        facts={"ask_id": ask.id, "state": state},
    )


def subject(ask_id: int) -> str:
    """What an ask is called in the audit log."""
    return f"ask:{ask_id}"


def check_ask(command: AskOwner) -> None:
    """Raise Invalid for a question or a button that cannot be shown or kept."""
    count_bytes(command.question, field="question")
    if not command.question.strip() or len(command.question) > QUESTION_CHARACTERS_MAX:
        raise Invalid(
            f"The question must be 1 to {QUESTION_CHARACTERS_MAX} characters.", field="question"
        )
    if len(command.answers) > BUTTONS_MAX:
        raise Invalid(f"There may be at most {BUTTONS_MAX} answers to choose.", field="answers")
    for answer in command.answers:
        check_line(answer, field="answers", characters_max=BUTTON_CHARACTERS_MAX)
    if len(set(command.answers)) < len(command.answers):
        raise Invalid("No two answers may be the same.", field="answers")


def check_answer(text: str) -> None:
    """Raise Invalid unless `text` is 1 to 4,096 bytes that say something."""
    if count_bytes(text, field="answer") > ANSWER_BYTES_MAX or not text.strip():
        raise Invalid(f"The answer must be 1 to {ANSWER_BYTES_MAX} bytes.", field="answer")


def _fits(text: str) -> bool:
    return len(text.encode(errors="replace")) <= ANSWER_BYTES_MAX and bool(text.strip())


def check_places(open_count: int) -> None:
    """Raise Refused while the owner has as many open asks as there may be."""
    if open_count >= OPEN_PER_OWNER_MAX:
        raise Refused(
            f"{open_count} asks await your owner; that is all there may be.", code="too_many_asks"
        )
