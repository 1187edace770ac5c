"""Each verb of hosts and queues that writes, cancelled at every step: whole, or not there."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import attrs
import pytest

from actors.testing import cancel_at_every_step
from muster.mirror.operations import focus, pasting, queue, sends, unconfirmed, windows
from muster.mirror.operations.hosts import add_host, release_host, retire_host
from muster.mirror.rules import AddHost, NoteFocus, ReleaseHost, RetireHost, StoreWindows
from muster.mirror.send_rules import (
    ARRIVED,
    AskAbout,
    CancelRouted,
    LapseOffer,
    Late,
    RefuseStanding,
    ResolveSend,
    Send,
    SendState,
)
from muster.outcomes import HintKind
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.builders import read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.mirror_host import new_host, new_session
from tests.support.send_desk import STEPUP_SECONDS, SendDesk, open_send_desk, window_of


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk."""
    return await open_send_desk(db, owner)


Prepare = Callable[[SendDesk], Awaitable[Send]]
Act = Callable[[SendDesk, Send], Awaitable[object]]


@attrs.frozen(kw_only=True)
class Verb:
    """How to prepare a text, what to do to it, and what is on record when it was done."""

    prepare: Prepare
    act: Act
    state: SendState
    actions: tuple[str, ...]


async def _routed(desk: SendDesk) -> Send:
    return await desk.route()


async def _routed_in_vain(desk: SendDesk) -> Send:
    send = await desk.route()
    assert send.route_id is not None
    await desk.end_route(send.route_id)
    return send


async def _overdue(desk: SendDesk) -> Send:
    send = await desk.offered()
    desk.db.clock_offset += timedelta(minutes=2)
    return send


def run(verb: Any, command: Callable[[Send], Any], *, owner: bool = False) -> Act:
    """The verb, as muster or as the owner."""

    async def act(desk: SendDesk, send: Send) -> object:
        return await desk.db.run(desk.owner if owner else desk.muster, verb, command(send))

    return act


def settle(outcome: pasting.Outcome) -> Act:
    """The host says what became of it."""
    return lambda desk, send: desk.settle(send, outcome)


VERBS: dict[str, Verb] = {
    "cancel": Verb(
        prepare=_routed,
        act=run(queue.cancel_send, lambda send: queue.CancelSend(send_id=send.id), owner=True),
        state=SendState.CANCELLED,
        actions=("cancelled",),
    ),
    "cancel routed": Verb(
        prepare=_routed,
        act=run(
            sends.cancel_routed, lambda send: CancelRouted(route_id=send.route_id or 0, why="x")
        ),
        state=SendState.CANCELLED,
        actions=(),
    ),
    "offer": Verb(
        prepare=_routed,
        act=lambda desk, _: desk.offer(),
        state=SendState.OFFERED,
        actions=(),
    ),
    "refuse at the paste": Verb(
        prepare=_routed_in_vain,
        act=lambda desk, _: desk.offer(),
        state=SendState.REFUSED,
        actions=("refused",),
    ),
    "refuse by the clock": Verb(
        prepare=_routed_in_vain,
        act=run(
            pasting.refuse_standing, lambda _: RefuseStanding(stepup_window_seconds=STEPUP_SECONDS)
        ),
        state=SendState.REFUSED,
        actions=("refused",),
    ),
    "pasted": Verb(
        prepare=lambda desk: desk.offered(),
        act=settle("pasted"),
        state=SendState.PASTED,
        actions=("pasted",),
    ),
    "never begun": Verb(
        prepare=lambda desk: desk.offered(),
        act=settle("not_begun"),
        state=SendState.QUEUED,
        actions=(),
    ),
    "unconfirmed": Verb(
        prepare=lambda desk: desk.offered(),
        act=settle("unconfirmed"),
        state=SendState.UNCONFIRMED,
        actions=("unconfirmed",),
    ),
    "lapse": Verb(
        prepare=_overdue,
        act=run(unconfirmed.lapse_offer, lambda send: LapseOffer(send_id=send.id)),
        state=SendState.UNCONFIRMED,
        actions=("unconfirmed",),
    ),
    "cut off": Verb(
        prepare=lambda desk: desk.offered(),
        act=lambda desk, _: desk.cut_off(),
        state=SendState.UNCONFIRMED,
        actions=("unconfirmed",),
    ),
    "resolve": Verb(
        prepare=lambda desk: desk.doubted(),
        act=run(
            unconfirmed.resolve_send,
            lambda send: ResolveSend(send_id=send.id, arrived=False),
            owner=True,
        ),
        state=SendState.LOST,
        actions=("lost",),
    ),
    "late proof": Verb(
        prepare=lambda desk: desk.doubted(),
        act=run(
            unconfirmed.settle_late,
            lambda send: Late(host_id=send.host_id or 0, send_id=send.id, proven=True),
        ),
        state=SendState.PASTED,
        actions=("pasted",),
    ),
    "answer": Verb(
        prepare=lambda desk: desk.doubted(),
        act=lambda desk, send: desk.answer(send.ask_id or 0, ARRIVED),
        state=SendState.PASTED,
        actions=("pasted",),
    ),
}


@pytest.mark.parametrize("name", list(VERBS))
async def test_whole_or_not_at_all(desk: SendDesk, name: str) -> None:
    """A cancelled verb leaves the text, its audit rows, its hint and its ask together or not."""
    verb = VERBS[name]
    send = await verb.prepare(desk)
    before = await desk.get(send.id)
    known = await desk.actions(send.id)
    asks = len(await desk.asks())
    desk.db.touched.clear()
    ended = 0

    async def act() -> None:
        await verb.act(desk, send)

    async def check(completed: bool) -> None:
        nonlocal send, before, known, asks, ended
        now = await desk.get(send.id)
        done = now != before
        assert done or not completed
        assert await desk.actions(send.id) == ([*known, *verb.actions] if done else known)
        shown = [hint for hint in desk.db.touched if hint.kind is HintKind.MIRRORED_CHANGED]
        assert bool(shown) is done
        if not done:
            assert len(await desk.asks()) == asks
            return
        assert now.state is verb.state
        doubted = now.state is SendState.UNCONFIRMED
        assert (len(await desk.asks()) == 1) is doubted
        if completed:
            return
        # Done although it was cancelled, in its last steps: the next run needs another text.
        await _clear(desk, now)
        send = await verb.prepare(desk)
        before, known = await desk.get(send.id), await desk.actions(send.id)
        asks = len(await desk.asks())
        desk.db.touched.clear()

    assert await cancel_at_every_step(act, check) >= 4


async def _clear(desk: SendDesk, send: Send) -> None:
    """Let nothing wait, and nothing be in hand."""
    if send.state is SendState.OFFERED:
        await desk.settle(send, "pasted")
    elif send.state is SendState.QUEUED:
        await desk.db.run(desk.owner, queue.cancel_send, queue.CancelSend(send_id=send.id))
    elif send.state is SendState.UNCONFIRMED:
        await desk.resolve(send, arrived=True)


async def test_queueing_is_all_or_nothing(desk: SendDesk) -> None:
    """A text waits with its audit row and its hint, or none of the three is there."""

    async def put() -> None:
        await desk.put()

    async def check(completed: bool) -> None:
        del completed
        waiting = len(await desk.listed())
        assert len(await read_audit(desk.db, desk.owner, "send.queued")) == waiting
        hints = [hint for hint in desk.db.published if hint.kind is HintKind.SEND_QUEUED]
        assert len(hints) == waiting

    assert await cancel_at_every_step(put, check) >= 4


async def test_asking_is_all_or_nothing(desk: SendDesk) -> None:
    """The question about a text is there and noted with it, or neither is."""
    forget = Query("update sends set ask_id = null where owner_id = %(owner_id)s and id = %(id)s")
    send = await desk.doubted()
    asked = len(await desk.asks())

    async def ask() -> None:
        async with desk.db.transaction(desk.muster) as tx:
            await tx.execute(forget, id=send.id)
        await desk.db.run(desk.muster, unconfirmed.ask_about, AskAbout(send_id=send.id))

    async def check(completed: bool) -> None:
        nonlocal asked
        noted = (await desk.get(send.id)).ask_id
        asks = await desk.asks()
        if len(asks) == asked:
            assert not completed
            assert noted is None or noted in {one.id for one in asks}
        else:
            assert len(asks) == asked + 1
            assert noted == max(one.id for one in asks)
        asked = len(asks)

    assert await cancel_at_every_step(ask, check) >= 8


LIVE = Query("""
    select (select count(*) from hosts where owner_id = %(owner_id)s and retired_at is null) * 1000
           + (select count(*) from credentials where owner_id = %(owner_id)s and kind = 'mmh_'
              and revoked_at is null)
""")


async def test_a_host_comes_and_goes_with_its_token(desk: SendDesk) -> None:
    """At whatever step its making or its retirement ends, a live host has one live token."""
    numbers = iter(range(1000))

    async def come_and_go() -> None:
        name = f"h{next(numbers)}"
        await desk.db.run(desk.owner, add_host, AddHost(name=name))
        await desk.db.run(desk.owner, retire_host, RetireHost(name=name))

    async def check(completed: bool) -> None:
        del completed
        async with desk.db.transaction(desk.owner) as tx:
            hosts, tokens = divmod(await tx.scalar(LIVE), 1000)
        assert hosts == tokens
        added = len(await read_audit(desk.db, desk.owner, "host.added"))
        retired = len(await read_audit(desk.db, desk.owner, "host.retired"))
        assert added - retired == hosts

    assert await cancel_at_every_step(come_and_go, check) >= 8


STATE = Query("""
    select (select string_agg(w.tmux_window || p.tmux_pane || p.state || p.mirrored_id, ','
                              order by w.tmux_window)
            from windows w join panes p on p.window_id = w.id where w.owner_id = %(owner_id)s)
           || ' ' || (select count(*) from mirrored where owner_id = %(owner_id)s) || ' '
           || (select count(*) from focus_titles where owner_id = %(owner_id)s) || ' '
           || (select string_agg(name || epoch || coalesce(node, '-'), ',' order by name)
               from hosts where owner_id = %(owner_id)s)
""")


async def state(desk: SendDesk) -> str:
    """All that hosts have told, in one line."""
    async with desk.db.transaction(desk.owner) as tx:
        return str(await tx.scalar(STATE))


async def test_a_list_is_all_or_nothing(desk: SendDesk) -> None:
    """Windows, panes and sessions of a list are there together, or the list before it is."""
    other = new_session()
    lists = (
        [window_of(desk.session)],
        [window_of(other, 2), window_of(new_session(), 3), window_of(new_session(), 4)],
    )

    async def list_windows(which: int) -> None:
        command = StoreWindows(host_id=desk.host_id, epoch=desk.epoch, windows=lists[which])
        await desk.db.run(desk.muster, windows.store_windows, command)

    await list_windows(1)
    after = await state(desk)
    await list_windows(0)
    before = await state(desk)

    async def check(completed: bool) -> None:
        now = await state(desk)
        # Ids of rows that were written anew are others; the sessions' own are not.
        assert now in (before, after)
        if completed:
            assert now == after
        await list_windows(0)

    assert await cancel_at_every_step(lambda: list_windows(1), check) >= 4


async def test_a_title_and_an_end_are_all_or_nothing(desk: SendDesk) -> None:
    """A session that is told of by its focus first is there with the title, or not at all."""

    async def note() -> None:
        command = NoteFocus(
            host_id=desk.host_id,
            epoch=desk.epoch,
            claude_session=new_session(),
            title="the garden",
            source="summary",
            cwd=None,
            at=await desk.ago(),
        )
        await desk.db.run(desk.muster, focus.note_focus, command)

    async def check(completed: bool) -> None:
        del completed
        sessions, titles = (await state(desk)).split(" ")[1:3]
        assert int(sessions) == int(titles) + 1

    assert await cancel_at_every_step(note, check) >= 4


async def test_a_release_is_all_or_nothing(desk: SendDesk) -> None:
    """The host's row says that its socket is gone, with the hint of it, or neither."""
    await new_host(desk.db, desk.owner, "laptop")
    desk.db.touched.clear()

    async def release() -> None:
        command = ReleaseHost(host_id=desk.host_id, epoch=desk.epoch)
        await desk.db.run(desk.muster, release_host, command)

    async def check(completed: bool) -> None:
        gone = "box1-" in await state(desk)
        assert gone or not completed
        hints = [hint for hint in desk.db.touched if hint.kind is HintKind.HOST_CHANGED]
        assert bool(hints) is gone

    assert await cancel_at_every_step(release, check) >= 4
