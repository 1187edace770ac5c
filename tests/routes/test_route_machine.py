"""Routes of one owner, in the database, under every sequence of what can happen to them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import ClassVar, TypeVar

import attrs
import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from muster.agents.operations import accept_gateway
from muster.agents.rules import Accept
from muster.chief.operations.routing.answering import AnswerRoute, answer_route
from muster.chief.operations.routing.ending import Round, supersede_queued
from muster.errors import Refused
from muster.messages.rules import Message
from muster.mirror.operations.pasting import Outcome
from muster.mirror.operations.queue import cancel_send
from muster.mirror.send_rules import CancelSend, SendState
from muster.pg.query import Query
from muster.routes.rules import By, HandBack, Route, State
from tests.support.builders import make_draft
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.mirror_host import new_session
from tests.support.route_desk import NODE, RouteDesk, open_route_desk
from tests.support.send_desk import show, window_of

T = TypeVar("T")

ROWS = Query("""
    select r.id, r.message_id, r.state, r.answer, r.handback, r.deadline_at <= %(now)s as overdue,
           s.id as send_id, s.state as send_state,
           array(select d.id from drafts d where d.owner_id = r.owner_id and d.route_id = r.id)
               as drafts,
           array(select replace(a.action, 'session_route.', '') from audit a
                 where a.owner_id = r.owner_id and a.subject = 'route:' || r.id order by a.id)
               as steps,
           (select count(*) from turns t where t.owner_id = r.owner_id and t.said_by = 'muster'
              and t.words like '%%again: route ' || r.id || ' %%') as told_back
    from session_routes r left join sends s on s.owner_id = r.owner_id and s.route_id = r.id
    where r.owner_id = %(owner_id)s order by r.id
""")
STEPS = {
    State.ROUTED: [["routed"]],
    State.ANSWERED: [["routed", "answered"]],
    State.RELAYED: [["routed", "answered", "relayed"]],
    State.FALLBACK: [["routed", "answered", "fallback"]],
    State.TIMED_OUT: [["routed", "timed_out"]],
    State.FAILED: [["routed", "failed"], ["routed", "answered", "failed"]],
    State.OWNER_ANSWERED: [["routed", "owner_answered"]],
}
REFUSALS = {
    "already_routed",
    "cannot_take",
    "no_reply",
    "queue_full",
    "reply_on_its_way",
    "subject_not_found",
}
WAITS = [timedelta(seconds=seconds) for seconds in (1, 61, 121, 29 * 60, 31 * 60, 4 * 3600)]
VIA = "pr example/garden#12 authored by a session"


@attrs.frozen(kw_only=True)
class Row:
    """A route as it is stored, with its text and its replies."""

    id: int
    message_id: int
    state: State = attrs.field(converter=State)
    answer: str | None
    handback: HandBack = attrs.field(converter=HandBack)
    overdue: bool
    send_id: int | None
    send_state: str | None
    drafts: list[int]
    steps: list[str]
    told_back: int  # how often the chief was told that it has the message again

    @property
    def is_open(self) -> bool:
        """Whether an answer is waited for, or waits to be relayed."""
        return self.state in (State.ROUTED, State.ANSWERED)


def wait(function: Callable[..., Awaitable[T]], *arguments: object, **more: object) -> T:
    """Run something in the test's own loop, from the thread of the machine."""
    return trio.from_thread.run(partial(function, *arguments, **more))


def attempt(
    function: Callable[..., Awaitable[T]], *arguments: object, **more: object
) -> T | Refused:
    """The same, or its refusal."""
    try:
        return wait(function, *arguments, **more)
    except Refused as refusal:
        return refusal


class Routes(RuleBasedStateMachine):
    """The verbs, by whoever runs them; what was refused changed nothing."""

    messages = Bundle("messages")
    db: ClassVar[SpiedDatabase]
    ends: ClassVar[set[State]]  # of all the runs

    def __init__(self) -> None:
        super().__init__()
        self.desk: RouteDesk = wait(self.open)
        self.made: dict[int, Route] = {}  # the newest of each message
        self.answers: dict[int, str] = {}
        self.ended: dict[int, State] = {}

    async def open(self) -> RouteDesk:
        """A desk of an owner of its own."""
        return await open_route_desk(self.db, await add_owner(self.db))

    async def read(self) -> list[Row]:
        """All routes, oldest first."""
        async with self.desk.db.transaction(self.desk.owner) as tx:
            return await tx.all(ROWS, Row)

    def newest(self, message: Message) -> Row | None:
        """The newest route of a message, as it stands."""
        route = self.made.get(message.id)
        return next((row for row in wait(self.read) if route and row.id == route.id), None)

    @initialize(target=messages, connected=st.booleans(), allowing=st.booleans())
    def begin(self, connected: bool, allowing: bool) -> object:
        """The chief is there or not, the sender is on the list or not, and routes are there."""
        if allowing:
            self.desk = self.desk.allowing
        if connected:
            accept = Accept(agent_id=self.desk.chief.agent_id, node=NODE)
            wait(self.desk.db.run, self.desk.muster, accept_gateway, accept)
        messages = [self.deliver(False, True) for _ in range(3)]
        for message in messages[1:]:
            self.route(message, By.CHIEF)
        return multiple(*messages)

    @rule(target=messages, person=st.booleans(), verified=st.booleans())
    def deliver(self, person: bool, verified: bool) -> Message:
        """The chief has a message."""
        return wait(
            self.desk.message, thread="t", human_conversation=person, sender_verified=verified
        )

    @rule(message=messages, by=st.sampled_from(By))
    def route(self, message: Message, by: By) -> None:
        """It is routed, or that is refused, as it is while an open route is there."""
        before = wait(self.read)
        is_open = any(row.message_id == message.id and row.is_open for row in before)
        via = VIA if by is By.MUSTER else None
        made = attempt(self.desk.route, message, by=by, via=via)
        if isinstance(made, Refused):
            assert made.code in REFUSALS
            assert (made.code == "already_routed") == is_open
            assert wait(self.read) == before
        else:
            assert not is_open
            self.made[message.id] = made

    @rule(message=messages, body=st.sampled_from(["Yes.", "No."]), own=st.booleans())
    def answer(self, message: Message, body: str, own: bool) -> None:
        """Its session answers, by its own door or by the API, and the answer is relayed."""
        if (row := self.newest(message)) is not None:
            session = self.desk.queue.session if own else None
            made = self.made[message.id]
            self.take(row, body, attempt(self.desk.answer, made, body, session=session))

    @rule(message=messages, body=st.sampled_from(["Yes.", "No."]))
    def keep(self, message: Message, body: str) -> None:
        """An answer whose relay is cut off."""
        if (row := self.newest(message)) is not None:
            command = AnswerRoute(route_id=row.id, body=body, via="x", deny_words=frozenset())
            run = self.desk.db.run
            self.take(row, body, attempt(run, self.desk.owner, answer_route, command))

    def take(self, row: Row, body: str, outcome: object) -> None:
        """The first answer of a route that waits is taken, and no other."""
        if isinstance(outcome, Refused):
            assert row.state is not State.ROUTED
        else:
            assert self.answers.setdefault(row.id, body) == body

    @rule(message=messages)
    def stamp(self, message: Message) -> None:
        """The plugin says that the sender was answered directly."""
        row = self.newest(message)
        stamped = wait(self.desk.stamp, message, "t")
        assert stamped.settled == (row is not None and row.state is State.ROUTED)

    @rule(message=messages)
    def cancel(self, message: Message) -> None:
        """The owner takes its text out of the queue."""
        row = self.newest(message)
        if row is not None and row.send_state == "queued":
            assert row.send_id is not None
            command = CancelSend(send_id=row.send_id)
            wait(self.desk.db.run, self.desk.owner, cancel_send, command)

    @rule(outcome=st.sampled_from(["pasted", "unconfirmed", "not_begun"]))
    def paste(self, outcome: Outcome) -> None:
        """The session takes its next text, which is a waiting route's."""
        send = wait(self.desk.queue.offer)
        if send is not None:
            (row,) = [row for row in wait(self.read) if row.id == send.route_id]
            assert row.state is State.ROUTED
            wait(self.desk.queue.settle, send, outcome)

    @rule(message=messages, approved=st.booleans())
    def draft(self, message: Message, approved: bool) -> None:
        """The chief writes a reply of its own, and the owner decides at once or not."""
        by = self.desk.owner if approved else None
        made = attempt(make_draft, self.desk.db, self.desk.chief, message, approved_by=by)
        assert not isinstance(made, Refused) or made.code == "reply_in_flight"

    @rule(message=messages)
    def supersede(self, message: Message) -> None:
        """A newer review round is here."""
        route = self.made.get(message.id)
        if route is not None:
            of = Round(mirrored_id=route.mirrored_id, routed_via=VIA, message_id=message.id)
            wait(self.desk.db.run, self.desk.muster, supersede_queued, of)

    @rule(shown=st.booleans())
    def move_on(self, shown: bool) -> None:
        """The window shows another conversation, or the session again."""
        queue = self.desk.queue
        window = window_of(queue.session if shown else new_session())
        wait(show, self.desk.db, self.desk.owner, queue.host_id, window)

    @rule(by=st.sampled_from(WAITS))
    def pass_time(self, by: timedelta) -> None:
        """The clock goes on, without a sweep."""
        wait(self.desk.shift, by)

    @rule()
    def sweep(self) -> None:
        """A round: what is due ends, and what is owed is delivered."""
        wait(self.desk.sweep)
        for row in wait(self.read):
            assert row.handback is not HandBack.OWED
            assert row.state is not State.ROUTED or not row.overdue
            gone = {"cancelled", "refused", "lost"}
            assert row.state is not State.ROUTED or row.send_state not in gone

    @invariant()
    def is_sound(self) -> None:
        """One open route a message, one reply a route, one end, and nothing waits for no route."""
        rows = wait(self.read)
        opened = [row.message_id for row in rows if row.is_open]
        assert len(opened) == len(set(opened))
        for row in rows:
            assert len(row.drafts) == (row.state in (State.RELAYED, State.FALLBACK))
            assert row.answer == self.answers.get(row.id)
            assert row.state is State.ROUTED or row.send_state != SendState.QUEUED.value
            assert row.steps in STEPS[row.state]
            assert row.told_back == (row.handback is HandBack.DELIVERED)
            if row.handback is not HandBack.NONE:
                assert row.state in (State.TIMED_OUT, State.FAILED)
            if not row.is_open:
                assert self.ended.setdefault(row.id, row.state) is row.state

    def teardown(self) -> None:
        """In the end, every route ends."""
        wait(self.desk.shift, timedelta(hours=5))
        self.sweep()
        self.is_sound()
        assert len(self.ended) == len(wait(self.read))
        self.ends.update(self.ended.values())


@pytest.mark.rule(311, 330, 334, 335)
async def test_no_sequence_loses_or_doubles_a_message(db: SpiedDatabase) -> None:
    """However routes are made, answered, cancelled, stamped, swept and timed out."""

    class OfThisTest(Routes):
        """On the test's database."""

    OfThisTest.db, OfThisTest.ends = db, set()
    run = settings(max_examples=30, stateful_step_count=30, deadline=None)
    await trio.to_thread.run_sync(partial(run_state_machine_as_test, OfThisTest, settings=run))
    assert len(OfThisTest.ends) >= 4, "the sequences are too tame"
