"""One actor: its three moments, its mailbox, questions, timers and nursery."""
# ruff: noqa: ARG002, D102 (the methods of what is under test explain themselves)


from __future__ import annotations

import pytest
import trio

from actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Address,
    Ask,
    AskCycle,
    AskTimeout,
    ChildSpec,
    Event,
    Log,
    MailboxFull,
    Policy,
    SupervisorSpec,
    Tree,
    open_tree,
)
from actors.testing import CrashAt, Recorder, cancel_at_every_step, crash_at_every_step, watching
from tests.actors.guests import one


class Steps(Actor):
    """Writes down its life; crashes and works on request."""

    def __init__(self, story: list[str]) -> None:
        self.story = story

    async def started(self) -> None:
        self.story.append("started")

    async def handle(self, message: object) -> object:
        self.story.append(f"handle {message}")
        match message:
            case "crash":
                raise ValueError("on request")
            case "work":
                self.nursery.start_soon(self.work)
            case "finish":
                self.finish()
            case "slow":
                await trio.sleep(100)
        return message

    async def work(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.story.append("work ended")

    async def stopping(self) -> None:
        self.story.append("stopping")


async def test_the_moments_come_in_order() -> None:
    """An actor starts, handles in the order sent, has its work cancelled, and then stops."""
    story: list[str] = []
    log = Log()
    async with one(lambda: Steps(story), log) as address:
        assert story == ["started"]
        address.tell("work")
        address.tell("a")
        assert await address.ask("b", deadline_seconds=1) == "b"
    assert story == ["started", "handle work", "handle a", "handle b", "work ended", "stopping"]
    assert [r.reason for r in log.recent() if r.event is Event.EXITED] == ["stopped"] * 2
    with pytest.raises(ActorStopped):
        address.tell("c")
    with pytest.raises(ActorStopped):
        await address.ask("c", deadline_seconds=1)


async def test_a_stop_overtakes_waiting_messages(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Messages that wait when the stop comes are not handled, and their askers hear of it."""
    story: list[str] = []
    heard: list[str] = []

    async def asks(address: Address) -> None:
        with pytest.raises(ActorStopped):
            await address.ask("never", deadline_seconds=60)
        heard.append("stopped")

    async with trio.open_nursery() as nursery, one(lambda: Steps(story)) as address:
        address.tell("slow")
        await trio.testing.wait_all_tasks_blocked()
        address.tell("x")
        nursery.start_soon(asks, address)
        await trio.testing.wait_all_tasks_blocked()
    assert story == ["started", "handle slow", "stopping"]
    assert heard == ["stopped"]


async def test_a_crash_is_one_report_and_its_message_is_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The message that crashed is not handled again; those behind it are, by the next one."""
    story: list[str] = []
    log = Log()
    async with one(lambda: Steps(story), log) as address:
        address.tell("crash")
        address.tell("after")
        assert await address.ask("last", deadline_seconds=1) == "last"
    assert story == [
        *("started", "handle crash"),
        *("started", "handle after", "handle last", "stopping"),
    ]
    (crash,) = [report for report in log.recent() if report.event is Event.CRASHED]
    assert crash.path == "root/one"
    assert crash.error == "ValueError: on request"
    assert crash.decision == "restart in 0.010 s (one_for_one)"
    assert any("test_actor_life" in line for line in crash.traceback)


async def test_a_crash_in_the_nursery_is_one_crash_of_the_actor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A task that raises while a message is in hand takes the actor down with one plain report."""
    log = Log()

    class Fragile(Actor):
        async def handle(self, message: object) -> None:
            self.nursery.start_soon(self.fail)
            self.nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()

        async def fail(self) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.really)

        async def really(self) -> None:
            raise KeyError("deep")

    async with one(Fragile, log) as address:
        with watching(log) as watch:
            with pytest.raises(ActorCrashed) as caught:
                await address.ask("go", deadline_seconds=1)
            assert isinstance(caught.value.__cause__, KeyError)
            await watch.next(Event.RESTARTED, "root/one")
    assert [r.error for r in log.recent() if r.event is Event.CRASHED] == ["KeyError: 'deep'"]


async def test_crashes_in_every_life_step_are_survived(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whichever step crashes, the actor answers afterwards and the crash is reported once."""

    async def scenario(crash: CrashAt) -> None:
        story: list[str] = []
        log = Log()
        async with one(crash.wrap(lambda: Steps(story)), log) as address:
            for message in ("a", "b", "finish", "c"):
                try:
                    assert await address.ask(message, deadline_seconds=5) == message
                except ActorCrashed:
                    assert await address.ask(message, deadline_seconds=5) == message
        crashes = [report for report in log.recent() if report.event is Event.CRASHED]
        assert len(crashes) == (crash.crashed_in is not None)

    crashed = await crash_at_every_step(scenario)
    assert set(crashed) == {"started", "handle", "stopping"}
    assert len(crashed) >= 16


async def test_a_stuck_message_is_cancelled_at_its_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A stop gives the message in hand stop_seconds; stopping() runs all the same."""
    story: list[str] = []
    log = Log()
    async with one(lambda: Steps(story), log, stop_seconds=3) as address:
        address.tell("slow")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(3)
    assert story == ["started", "handle slow", "stopping"]
    assert "killed" in [r.reason for r in log.recent() if r.path == "root/one"]


async def test_a_stopping_that_hangs_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """stopping() has stop_seconds of its own and is then cancelled."""

    class Clinging(Actor):
        async def stopping(self) -> None:
            await trio.sleep_forever()

    async with one(Clinging, stop_seconds=2):
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(2)


async def test_a_full_mailbox_refuses_and_reports_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A burst past the bound is refused, told once, and told again after it had drained."""
    log = Log()
    async with one(lambda: Steps([]), log, mailbox_size=2) as address:
        for _ in range(2):
            address.tell("a")
            address.tell("b")
            for _ in range(3):
                with pytest.raises(MailboxFull):
                    address.tell("c")
            await trio.testing.wait_all_tasks_blocked()
    assert [r.event for r in log.recent()].count(Event.MAILBOX_FULL) == 2


async def test_hints_of_one_key_coalesce() -> None:
    """While one of its key waits, a message takes that one's place, even in a full mailbox."""
    recorder = Recorder()
    async with one(lambda: recorder, mailbox_size=2, policy=Policy.TEMPORARY) as address:
        address.tell(1, key="k")
        address.tell("other")
        address.tell(2, key="k")
        assert await recorder.wait_received(2) == [2, "other"]
        address.tell(3, key="k")
        assert await recorder.wait_received(3) == [2, "other", 3]


async def test_a_slow_message_is_reported(autojump_clock: trio.testing.MockClock) -> None:
    """A message that takes longer than slow_seconds leaves a report that names its type."""
    log = Log()
    async with one(lambda: Steps([]), log) as address:
        await address.ask("slow", deadline_seconds=200)
        await address.ask("quick", deadline_seconds=1)
    slow = [r.reason for r in log.recent() if r.event is Event.SLOW_HANDLER]
    assert slow == ["str took 100.000 s"]


class Granting(Actor):
    """Grants a thing to each asker, at once or later, and counts what comes back."""

    def __init__(self) -> None:
        self.out = 0
        self.deferred: list[Ask] = []

    async def handle(self, message: object) -> object:
        if message == "later":
            self.deferred.append(self.defer())
            return None
        await trio.lowlevel.checkpoint()
        self.out += 1
        await trio.lowlevel.checkpoint()
        return "granted"

    def unreceived(self, message: object, answer: object) -> None:
        assert answer == "granted"
        self.out -= 1


async def test_a_grant_is_received_or_taken_back_after_a_cancel_at_any_step() -> None:
    """Cancelled at each step, an ask leaves a grant only with an asker that has it."""
    granting = Granting()
    received: list[object] = []
    async with one(lambda: granting, policy=Policy.TEMPORARY) as address:

        async def operation() -> None:
            received.append(await address.ask("now", deadline_seconds=60))
            await trio.lowlevel.checkpoint()

        async def check(completed: bool) -> None:
            await trio.testing.wait_all_tasks_blocked()
            assert granting.out == len(received)
            if completed:
                assert received == ["granted"]
            granting.out = 0
            received.clear()

        assert await cancel_at_every_step(operation, check) >= 3


@pytest.mark.parametrize("checkpoints", range(6))
async def test_an_asker_that_goes_at_any_moment_leaves_no_grant_behind(checkpoints: int) -> None:
    """However far the actor has come when the asker goes, grants and receipts agree."""
    granting = Granting()
    received: list[object] = []
    async with one(lambda: granting, policy=Policy.TEMPORARY) as address:
        async with trio.open_nursery() as nursery:

            async def asks() -> None:
                received.append(await address.ask("now", deadline_seconds=60))

            nursery.start_soon(asks)
            for _ in range(checkpoints):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert granting.out == len(received)


async def test_an_answer_may_come_later_or_too_late(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A deferred question is answered outside the loop; after its deadline nobody gets it."""
    granting = Granting()
    async with one(lambda: granting, policy=Policy.TEMPORARY) as address:
        with pytest.raises(AskTimeout):
            await address.ask("later", deadline_seconds=1)
        assert granting.deferred[0].answer("late") is False
        async with trio.open_nursery() as nursery:

            async def asks() -> None:
                assert await address.ask("later", deadline_seconds=1) == "in time"

            nursery.start_soon(asks)
            await trio.testing.wait_all_tasks_blocked()
            assert granting.deferred[1].answer("in time") is True
            assert granting.deferred[1].answer("twice") is False


async def test_a_question_whose_asker_left_is_never_begun(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A question that timed out in the queue is dropped unhandled."""
    story: list[str] = []
    async with one(lambda: Steps(story)) as address:
        address.tell("slow")
        with pytest.raises(AskTimeout):
            await address.ask("stale", deadline_seconds=1)
        await address.ask("fresh", deadline_seconds=200)
    assert story == ["started", "handle slow", "handle fresh", "stopping"]


async def test_a_circle_of_questions_is_refused() -> None:
    """An actor that asks somebody who waits for it gets AskCycle at once."""

    class Asking(Actor):
        def __init__(self, other: str) -> None:
            self.other = other

        async def handle(self, message: object) -> object:
            assert isinstance(self.tree, Tree)
            try:
                return await self.tree.address(self.other).ask(message, deadline_seconds=60)
            except AskCycle:
                return "refused"

    root = SupervisorSpec(
        name="root",
        children=[
            ChildSpec(name="a", start=lambda: Asking("root/b")),
            ChildSpec(name="b", start=lambda: Asking("root/a")),
        ],
    )
    async with open_tree(root, Log()) as tree:
        assert await tree.address("root/a").ask("x", deadline_seconds=60) == "refused"
