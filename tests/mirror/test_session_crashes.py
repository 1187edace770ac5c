"""The actor of a session crashes at each step of its life, or is cancelled: never twice a paste."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest
import trio

from actors import ChildSpec, Log, Policy, SupervisorSpec, open_tree
from actors.testing import CrashAt, cancel_at_every_step, crash_at_every_step
from muster.errors import OutcomeUnknown
from muster.mirror.frames import Hello, PaneSeen, PasteDone, Windows, WindowSeen
from muster.mirror.gateway import Link, Links
from muster.mirror.send_rules import SendState
from muster.mirror.session_actor import Look, SessionActor, SessionSettings
from muster.principals import MirrorHost, Owner
from tests.support.builders import read_now
from tests.support.cluster import SpiedDatabase
from tests.support.send_desk import STEPUP_SECONDS, SendDesk, open_send_desk
from tests.support.waiting import until

SETTINGS = SessionSettings(
    idle_seconds=1.0, stepup_window_seconds=STEPUP_SECONDS, may_begin=lambda: True
)


class Peer:
    """A host's end that proves a paste as soon as its order was written."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.pasted: list[int] = []
        self.silent = False

    async def receive_frame(self) -> Mapping[str, object]:
        """Stay silent."""
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def send_frame(self, frame: Mapping[str, object]) -> None:
        """Take a frame whole, at a checkpoint before it as a socket has one."""
        await trio.lowlevel.checkpoint()
        if frame["type"] != "paste":
            return
        send_id = frame["send_id"]
        assert isinstance(send_id, int)
        assert self.link is not None
        self.pasted.append(send_id)
        if not self.silent:
            self.link.paste_done(PasteDone(seq=1, send_id=send_id, outcome="pasted"))


class Stage:
    """A desk whose host is connected, and shows the session idle."""

    def __init__(self, desk: SendDesk) -> None:
        self.desk = desk
        self.peer = Peer()
        self.links = Links()

    async def connect(self) -> None:
        """The host says hello and lists its window."""
        now = await read_now(self.desk.db)
        hello = Hello(seq=1, host="box.test", interactive=True, resume_spawn=False, now=now)
        host = MirrorHost(
            owner_id=self.desk.owner.owner_id,
            host_id=self.desk.host_id,
            name="box",
            credential_id=1,
        )
        link = self.peer.link = Link(host=host, hello=hello, peer=self.peer)
        link.epoch = self.desk.epoch
        pane = PaneSeen(
            pane="%1",
            active=True,
            state="idle",
            claude_session=self.desk.session,
            idle_since=await self.desk.ago(minutes=1),
        )
        window = WindowSeen(window="@1", title="main:1", panes=[pane])
        link.show(Windows(seq=2, now=now, windows=[window]), trio.current_time())
        link.know({self.desk.session: self.desk.mirrored_id})
        self.links.enter(link)

    def actor(self) -> SessionActor:
        """The session's actor."""
        desk = self.desk
        return SessionActor(
            desk.owner.owner_id,
            desk.mirrored_id,
            db=desk.db,
            find=lambda: self.links.find_session(desk.owner.owner_id, desk.mirrored_id),
            settings=SETTINGS,
        )


@pytest.fixture
async def stage(db: SpiedDatabase, owner: Owner) -> Stage:
    """A stage."""
    stage = Stage(await open_send_desk(db, owner))
    await stage.connect()
    return stage


async def test_a_crash_anywhere(stage: Stage) -> None:
    """Started anew by itself, it goes on with the queue; no text is pasted twice."""
    desk = stage.desk

    async def scenario(crash: CrashAt) -> None:
        sends = [(await desk.put(text)).id for text in ("one", "two")]
        stage.peer.pasted.clear()
        child = ChildSpec(name="session", start=crash.wrap(stage.actor), policy=Policy.TRANSIENT)
        async with open_tree(SupervisorSpec(name="root"), log=Log()) as tree:

            async def settled() -> bool:
                for send_id in sends:
                    send = await desk.get(send_id)
                    if send.state is SendState.UNCONFIRMED:
                        await desk.resolve(send, arrived=True)
                        tree.supervisor("root").tell_or_start(child, Look(), key="look")
                return {(await desk.get(one)).state for one in sends} == {SendState.PASTED}

            tree.supervisor("root").tell_or_start(child, Look(), key="look")
            await until(settled)
        assert all(stage.peer.pasted.count(send_id) <= 1 for send_id in sends)

    crashed = await crash_at_every_step(scenario)
    assert crashed.count("handle") >= 2
    assert "started" in crashed


class Here:
    """Stands in for an actor's nursery and timers, so that its work is done in one task."""

    def __init__(self) -> None:
        self.begun: Callable[[], Awaitable[None]] | None = None

    def start_soon(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Keep the work, for the test to do."""
        self.begun = partial(work, *args)

    def after(self, *args: object, **kwargs: object) -> None:
        """No timer is set."""


async def test_a_paste_stopped_anywhere(stage: Stage) -> None:
    """Never left in a host's hand, and queued again only when no byte of it was written."""
    desk = stage.desk
    send = await desk.put()
    ends: set[SendState] = set()

    async def paste() -> None:
        actor, here = stage.actor(), Here()
        actor.nursery = actor.timers = here  # type: ignore[assignment]
        await actor.handle(Look())
        assert here.begun is not None
        await here.begun()

    async def check(completed: bool) -> None:
        nonlocal send
        now = await desk.get(send.id)
        wrote = stage.peer.pasted.count(send.id)
        ends.add(now.state)
        assert desk.db.pool.free == desk.db.pool.size
        match now.state:
            case SendState.QUEUED:
                assert wrote == 0
                assert not completed
                return
            case SendState.PASTED:
                assert wrote == 1
            case _:
                assert now.state is SendState.UNCONFIRMED
                assert not completed
                await desk.resolve(now, arrived=True)
        send = await desk.put()

    assert await cancel_at_every_step(paste, check) >= 8
    assert ends >= {SendState.QUEUED, SendState.PASTED}


async def test_a_link_that_is_closed_is_sent_nothing(stage: Stage) -> None:
    """A text that was taken for a connection that ended meanwhile goes back: nobody was told it."""
    desk = stage.desk
    send = await desk.put()
    actor, here = stage.actor(), Here()
    actor.nursery = actor.timers = here  # type: ignore[assignment]
    await actor.handle(Look())
    assert (await desk.get(send.id)).state is SendState.OFFERED
    assert stage.peer.link is not None
    stage.peer.link.close()
    assert here.begun is not None
    await here.begun()
    assert (await desk.get(send.id)).state is SendState.QUEUED
    assert stage.peer.pasted == []


async def test_a_commit_whose_answer_was_lost(stage: Stage) -> None:
    """The text that it may have handed out goes back, since nobody was told it, and is offered."""
    desk = stage.desk
    send = await desk.put()
    actor, here = stage.actor(), Here()
    actor.nursery = actor.timers = here  # type: ignore[assignment]
    whole = desk.db.run
    lost: list[object] = []

    async def run(principal: Any, operation: Any, command: Any) -> Any:
        outcome = await whole(principal, operation, command)
        if not lost:
            lost.append(outcome)
            raise OutcomeUnknown("the commit's answer was lost")
        return outcome

    desk.db.run = run  # type: ignore[method-assign]
    await actor.handle(Look())
    assert vars(here)["begun"] is None
    now = await desk.get(send.id)
    assert (now.state, now.offers, stage.peer.pasted) == (SendState.QUEUED, 1, [])
    await actor.handle(Look())
    assert here.begun is not None
    await here.begun()
    assert (await desk.get(send.id)).state is SendState.PASTED
