"""Supervisors: order, strategies, giving up, cancels."""
# ruff: noqa: ARG002, D102 (the methods of what is under test explain themselves)


from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import trio

from actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    ChildSpec,
    Event,
    GaveUp,
    Intensity,
    Log,
    Policy,
    Strategy,
    SupervisorSpec,
    open_tree,
)
from actors.testing import Recorder, watching

MANY = Intensity(restarts=100, window_seconds=1000, backoff_first_seconds=0.01)
FEW = Intensity(restarts=2, window_seconds=60, backoff_first_seconds=1, backoff_max_seconds=1)


class Named(Actor):
    """Writes its starts and stops into one story; crashes on request."""

    def __init__(self, story: list[str]) -> None:
        self.story = story

    async def started(self) -> None:
        await trio.lowlevel.checkpoint()
        self.story.append(f"+{self.path.rpartition('/')[2]}")

    async def handle(self, message: object) -> object:
        if message == "crash":
            raise ValueError("on request")
        if message == "finish":
            self.finish()
        return message

    async def stopping(self) -> None:
        await trio.lowlevel.checkpoint()
        self.story.append(f"-{self.path.rpartition('/')[2]}")


def children(
    story: list[str], names: str = "abc", policy: Policy = Policy.PERMANENT
) -> Sequence[ChildSpec]:
    """One child a letter."""
    return [ChildSpec(name=name, start=lambda: Named(story), policy=policy) for name in names]


async def test_children_start_in_order_and_stop_in_reverse() -> None:
    """Each child is up before the next starts, below supervisors too, and goes after it."""
    story: list[str] = []
    inner = SupervisorSpec(name="inner", children=children(story, "xy"))
    root = SupervisorSpec(
        name="root", children=[*children(story, "a"), inner, *children(story, "b")]
    )
    async with open_tree(root, Log()) as tree:
        assert story == ["+a", "+x", "+y", "+b"]
        assert tree.paths() == (
            *("root", "root/a", "root/b"),
            *("root/inner", "root/inner/x", "root/inner/y"),
        )
    assert story[4:] == ["-b", "-y", "-x", "-a"]


@pytest.mark.parametrize(
    ("strategy", "after"),
    [
        (Strategy.ONE_FOR_ONE, ["+b"]),
        (Strategy.REST_FOR_ONE, ["-c", "+b", "+c"]),
        (Strategy.ONE_FOR_ALL, ["-c", "-a", "+a", "+b", "+c"]),
    ],
)
async def test_who_restarts_with_a_crashed_child(
    autojump_clock: trio.testing.MockClock, strategy: Strategy, after: list[str]
) -> None:
    """One-for-one restarts the crashed one, rest-for-one also the later ones, one-for-all all."""
    story: list[str] = []
    root = SupervisorSpec(
        name="root", strategy=strategy, intensity=MANY, children=children(story)
    )
    async with open_tree(root, Log()) as tree:
        story.clear()
        tree.address("root/b").tell("crash")
        await trio.sleep(1)
        assert story == after


@pytest.mark.parametrize(
    ("policy", "message", "restarts"),
    [
        (Policy.PERMANENT, "finish", True),
        (Policy.TRANSIENT, "finish", False),
        (Policy.TRANSIENT, "crash", True),
        (Policy.TEMPORARY, "crash", False),
    ],
)
async def test_policies(
    autojump_clock: trio.testing.MockClock, policy: Policy, message: str, restarts: bool
) -> None:
    """A child that its policy leaves ended is nowhere to be found."""
    root = SupervisorSpec(name="root", intensity=MANY, children=children([], "a", policy))
    async with open_tree(root, Log()) as tree:
        address = tree.address("root/a")
        address.tell(message)
        await trio.sleep(1)
        assert address.reachable is restarts
        if restarts:
            assert await address.ask("hi", deadline_seconds=1) == "hi"
        else:
            with pytest.raises(ActorStopped):
                address.tell("hi")


async def test_siblings_of_a_temporary_child_do_not_restart_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """In one-for-all, the crash of a temporary child moves nobody."""
    story: list[str] = []
    root = SupervisorSpec(
        name="root",
        strategy=Strategy.ONE_FOR_ALL,
        children=[*children(story, "a"), *children(story, "t", Policy.TEMPORARY)],
    )
    async with open_tree(root, Log()) as tree:
        tree.address("root/t").tell("crash")
        await trio.sleep(5)
        assert story == ["+a", "+t"]
        assert tree.supervisor("root").children() == ("a",)


async def test_messages_survive_a_backoff(autojump_clock: trio.testing.MockClock) -> None:
    """What is told while a child waits to be restarted is handled once it is up."""
    root = SupervisorSpec(name="root", intensity=FEW, children=children([], "a"))
    async with open_tree(root, Log(), jitter=lambda: 0.0) as tree:
        tree.address("root/a").tell("crash")
        await trio.sleep(0.5)
        began = trio.current_time()
        assert await tree.address("root/a").ask("hi", deadline_seconds=5) == "hi"
        assert trio.current_time() - began == pytest.approx(0.5)


async def test_the_root_gives_up_into_the_block(autojump_clock: trio.testing.MockClock) -> None:
    """One crash too many cancels the block, stops the others in order and raises GaveUp."""
    story: list[str] = []
    log = Log()
    root = SupervisorSpec(name="root", intensity=FEW, children=children(story))

    async def run() -> None:
        async with open_tree(root, log) as tree:
            for _ in range(3):
                tree.address("root/b").tell("crash")
            await trio.sleep_forever()

    with pytest.raises(GaveUp, match="root gave up after 2 restarts within 60 s") as caught:
        await run()
    assert isinstance(caught.value.__cause__, ValueError)
    assert story[-2:] == ["-c", "-a"]
    last = log.recent()[-1]
    assert (last.path, last.event) == ("root", Event.GAVE_UP)


async def test_a_child_that_never_comes_up_ends_the_opening(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A child whose start fails each time makes open_tree raise before its block begins."""

    def broken() -> Actor:
        raise OSError("no port")

    story: list[str] = []
    root = SupervisorSpec(
        name="root",
        intensity=FEW,
        children=[*children(story, "a"), ChildSpec(name="b", start=broken), *children(story, "c")],
    )
    with pytest.raises(GaveUp, match="OSError: no port"):
        async with open_tree(root, Log()):
            raise AssertionError("the block began")
    assert story == ["+a", "-a"]


async def test_a_supervisor_that_gave_up_is_restarted_by_its_parent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The parent starts it anew with an empty history; mailboxes and addresses below live on."""
    story: list[str] = []
    log = Log()
    inner = SupervisorSpec(name="inner", intensity=FEW, children=children(story, "xy"))
    root = SupervisorSpec(name="root", intensity=MANY, children=[inner])
    async with open_tree(root, log) as tree:
        address = tree.address("root/inner/x")
        with watching(log) as watch:
            for _ in range(3):
                address.tell("crash")
            address.tell("waits")
            await watch.next(Event.GAVE_UP, "root/inner", deadline_seconds=100)
        assert await address.ask("hi", deadline_seconds=5) == "hi"
        assert await tree.address("root/inner/y").ask("hi", deadline_seconds=5) == "hi"
        assert story[-3:] == ["-y", "+x", "+y"]
        address.tell("crash")
        assert await address.ask("hi", deadline_seconds=5) == "hi"
    assert [report.event for report in log.recent()].count(Event.GAVE_UP) == 1


async def test_an_isolated_child_is_dropped_alone(autojump_clock: trio.testing.MockClock) -> None:
    """With isolate, a dynamic child that crashes too often goes, and the others stay."""
    owners = SupervisorSpec(name="owners", intensity=FEW, isolate=True)
    async with open_tree(SupervisorSpec(name="root", children=[owners]), Log()) as tree:
        handle = tree.supervisor("root/owners")
        good, bad = [
            await handle.start_child(spec) for spec in children([], "gb")
        ]
        for _ in range(3):
            good.tell("hi")
            bad.tell("crash")
        await trio.sleep(10)
        assert handle.children() == ("g",)
        assert good.reachable
        with pytest.raises(ActorStopped):
            bad.tell("hi")


async def test_a_cancel_of_the_tree_is_an_ordered_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Cancelled from outside, the tree stops in order and nothing is reported as a crash."""
    story: list[str] = []
    log = Log()
    with trio.move_on_after(1) as scope:
        async with open_tree(SupervisorSpec(name="root", children=children(story)), log):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert story == ["+a", "+b", "+c", "-c", "-b", "-a"]
    assert {report.event for report in log.recent()} == {Event.STARTED, Event.EXITED}


async def test_a_cancel_while_the_tree_starts(autojump_clock: trio.testing.MockClock) -> None:
    """A tree that is cancelled before it is up stops what has started."""
    story: list[str] = []

    class Slow(Actor):
        async def started(self) -> None:
            await trio.sleep(100)

    root = SupervisorSpec(
        name="root",
        children=[*children(story, "a"), ChildSpec(name="b", start=Slow), *children(story, "c")],
    )
    with trio.move_on_after(1) as scope:
        async with open_tree(root, Log()):
            raise AssertionError("the block began")
    assert scope.cancelled_caught
    assert story == ["+a", "-a"]


async def test_an_error_of_the_block_comes_out_bare() -> None:
    """The block's own exception leaves open_tree unwrapped, after the stop."""
    story: list[str] = []
    with pytest.raises(LookupError, match="mine"):
        async with open_tree(SupervisorSpec(name="root", children=children(story, "a")), Log()):
            raise LookupError("mine")
    assert story == ["+a", "-a"]


def test_a_keyboard_interrupt_passes_through() -> None:
    """KeyboardInterrupt in an actor is no crash: it ends the tree and leaves trio.run."""
    log = Log()

    class Interrupted(Actor):
        async def handle(self, message: object) -> None:
            raise KeyboardInterrupt

    async def main() -> None:
        spec = ChildSpec(name="i", start=Interrupted)
        deep = SupervisorSpec(name="deep", children=[spec])
        async with open_tree(SupervisorSpec(name="root", children=[deep]), log) as tree:
            tree.address("root/deep/i").tell("go")
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(main)
    assert caught.value.subgroup(KeyboardInterrupt) is not None
    assert not [report for report in log.recent() if report.event is Event.CRASHED]


async def test_stuck_children_are_stopped_within_their_deadlines(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Dynamic children are stopped together, so that many stuck ones take as long as one."""

    class Stuck(Actor):
        async def handle(self, message: object) -> None:
            await trio.sleep_forever()

    root = SupervisorSpec(name="root", children=children([], "a"))
    async with open_tree(root, Log()) as tree:
        for number in range(20):
            spec = ChildSpec(name=f"s{number}", start=Stuck, stop_seconds=2)
            tree.supervisor("root").tell_or_start(spec, "go")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(2)


async def test_a_flood_of_crashes_at_once_keeps_the_tree_whole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Children of one one-for-all group that crash together restart as one group, all up."""
    story: list[str] = []
    root = SupervisorSpec(
        name="root", strategy=Strategy.ONE_FOR_ALL, intensity=MANY, children=children(story)
    )
    async with open_tree(root, Log()) as tree:
        for name in "abc":
            tree.address(f"root/{name}").tell("crash")
        await trio.sleep(5)
        for name in "abc":
            assert await tree.address(f"root/{name}").ask("hi", deadline_seconds=1) == "hi"
        assert story[-3:] == ["+a", "+b", "+c"]


async def test_two_trees_know_nothing_of_each_other() -> None:
    """Paths belong to a tree, so the same ones may be used twice in a process."""
    stories: list[list[str]] = [[], []]

    def root(story: list[str]) -> SupervisorSpec:
        return SupervisorSpec(name="root", children=children(story, "a"))

    async with open_tree(root(stories[0]), Log()) as one, open_tree(root(stories[1]), Log()) as two:
        with pytest.raises(ActorCrashed):
            await one.address("root/a").ask("crash", deadline_seconds=1)
        assert await two.address("root/a").ask("hi", deadline_seconds=1) == "hi"
    assert stories[1] == ["+a", "-a"]


async def test_bad_specs_are_refused() -> None:
    """A name with a slash, an empty one and two children of one name are errors at once."""
    start: Callable[[], Actor] = Recorder
    for name in ("", "a/b"):
        with pytest.raises(ValueError, match="name"):
            ChildSpec(name=name, start=start)
    with pytest.raises(ValueError, match="two children"):
        SupervisorSpec(name="root", children=children([], "aa"))
