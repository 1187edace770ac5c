"""Hosts, what they list, and the sessions in it, as rows."""

from datetime import timedelta

import pytest

from muster.errors import Conflict, Invalid, NotFound, Refused, Unauthorized
from muster.ids import CredentialKind
from muster.mirror.operations.focus import note_focus
from muster.mirror.operations.hosts import (
    accept_host,
    add_host,
    list_hosts,
    release_host,
    retire_host,
)
from muster.mirror.operations.sessions import (
    ListSessions,
    SessionView,
    find_session,
    get_session,
    list_sessions,
    online_targets,
)
from muster.mirror.rules import (
    HOSTS_MAX,
    AddHost,
    HostView,
    ListHosts,
    NoteFocus,
    PaneState,
    ReleaseHost,
    RetireHost,
)
from muster.outcomes import HintKind
from muster.pg.query import Query
from muster.principals import Node, Owner
from tests.support.builders import read_audit
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.mirror_host import find_mirrored, new_host, new_session
from tests.support.send_desk import SendDesk, accepting, open_send_desk, show, window_of

BEAT = Query("""
    insert into nodes (id, started_at, seen_at) values ('tests', %(now)s, %(now)s)
    on conflict (id) do update set seen_at = excluded.seen_at
""")
TITLES = Query("""
    select count(*) from focus_titles where owner_id = %(owner_id)s
""")
FIND_KINDS = Query("""
    select kind from credentials where owner_id = %(owner_id)s and revoked_at is null
""")


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk whose host's node lives."""
    desk = await open_send_desk(db, owner)
    await beat(db)
    return desk


async def beat(db: SpiedDatabase) -> None:
    """The node of the tests is alive now."""
    async with db.transaction(Node()) as tx:
        await tx.execute(BEAT)


async def host(desk: SendDesk, name: str = "box") -> HostView:
    """A host as listed."""
    listed = await desk.db.run(desk.owner, list_hosts, ListHosts(retired_too=True))
    (found,) = [one for one in listed if one.name == name]
    return found


async def sessions(desk: SendDesk, *, ended: bool = False) -> list[SessionView]:
    """The owner's sessions as listed."""
    return await desk.db.run(desk.owner, list_sessions, ListSessions(ended=ended))


async def session(desk: SendDesk) -> SessionView:
    """The desk's session."""
    return await desk.db.run(desk.owner, get_session, desk.mirrored_id)


async def second_host(desk: SendDesk, name: str = "laptop") -> int:
    """Another host of the owner's, at its first socket."""
    host_id, _ = await new_host(desk.db, desk.owner, name)
    await desk.db.run(desk.muster, accept_host, accepting(host_id))
    return host_id


async def test_a_host_has_a_token_of_its_own_kind(db: SpiedDatabase, owner: Owner) -> None:
    """Its token opens the mirror's doors, is told once, and ends with the host."""
    host, token = await db.run(owner, add_host, AddHost(name="box"))
    assert token.startswith(CredentialKind.MIRROR_HOST.value)
    (row,) = await read_audit(db, owner, "host.")
    assert (row.action, row.subject, row.data) == ("host.added", f"host:{host.id}", {"name": "box"})
    await db.run(owner, retire_host, RetireHost(name="box"))
    async with db.transaction(owner) as tx:
        assert await tx.scalar(FIND_KINDS) is None
    assert [row.action for row in await read_audit(db, owner, "host.")][-1] == "host.retired"
    assert [hint.id for hint in db.published if hint.kind is HintKind.HOST_DOUBTED] == [host.id]


async def test_names_of_hosts(db: SpiedDatabase, owner: Owner) -> None:
    """A name is a slug, one live host's alone, and free again; nobody's is not found."""
    with pytest.raises(Invalid):
        await new_host(db, owner, "Box")
    first, _ = await new_host(db, owner)
    with pytest.raises(Conflict):
        await new_host(db, owner)
    await new_host(db, await add_owner(db))
    await db.run(owner, retire_host, RetireHost(name="box"))
    with pytest.raises(NotFound):
        await db.run(owner, retire_host, RetireHost(name="box"))
    assert (await new_host(db, owner))[0] > first
    assert len(await db.run(owner, list_hosts, ListHosts())) == 1
    assert len(await db.run(owner, list_hosts, ListHosts(retired_too=True))) == 2


async def test_an_owner_has_so_many_hosts(db: SpiedDatabase, owner: Owner) -> None:
    """The 101st live one is refused."""
    for number in range(HOSTS_MAX):
        await new_host(db, owner, f"box-{number}")
    with pytest.raises(Refused) as caught:
        await new_host(db, owner, "more")
    assert caught.value.code == "too_many"
    await db.run(owner, retire_host, RetireHost(name="box-0"))
    await new_host(db, owner, "more")


async def test_a_host_is_online_while_its_node_lives(desk: SendDesk) -> None:
    """A server that was killed counts as gone after 20 s, and its hosts as offline."""
    assert (await host(desk)).online
    desk.db.clock_offset += timedelta(seconds=25)
    assert not (await host(desk)).online
    assert not (await session(desk)).online
    await beat(desk.db)
    assert (await host(desk)).online


async def test_a_retired_host_accepts_no_socket(desk: SendDesk) -> None:
    """Its token is no good any more, and what it lists is not written."""
    await desk.db.run(desk.owner, retire_host, RetireHost(name="box"))
    with pytest.raises(Unauthorized):
        await desk.db.run(desk.muster, accept_host, accepting(desk.host_id))
    assert await show(desk.db, desk.owner, desk.host_id) is None
    assert not (await host(desk)).online
    assert [one.id for one in await sessions(desk, ended=True)] == [desk.mirrored_id]


async def test_an_older_socket_writes_nothing(desk: SendDesk) -> None:
    """Its lists and titles change nothing, and its end does not take the host off."""
    await desk.cut_off()
    assert await show(desk.db, desk.owner, desk.host_id, epoch=1) is None
    assert not await desk.db.run(desk.muster, note_focus, await title(desk, epoch=1))
    older = ReleaseHost(host_id=desk.host_id, epoch=1)
    assert not await desk.db.run(desk.muster, release_host, older)
    assert (await host(desk)).online
    assert (await session(desk)).shown


async def title(desk: SendDesk, *, epoch: int = 1, at: timedelta = timedelta(0)) -> NoteFocus:
    """A focus of the desk's session."""
    return NoteFocus(
        host_id=desk.host_id,
        epoch=epoch,
        claude_session=desk.session,
        title="the garden",
        source="summary",
        cwd="/srv/garden",
        at=await desk.ago() + at,
    )


async def test_a_title_is_kept_once(desk: SendDesk) -> None:
    """Told again it changes nothing; one of a clock that is ahead counts as of now."""
    note = await title(desk)
    assert await desk.db.run(desk.muster, note_focus, note)
    desk.db.touched.clear()
    assert await desk.db.run(desk.muster, note_focus, note)
    assert desk.db.touched == []
    ahead = await title(desk, at=timedelta(hours=5))
    assert await desk.db.run(desk.muster, note_focus, ahead)
    async with desk.db.transaction(desk.owner) as tx:
        assert await tx.scalar(TITLES) == 2
        latest = Query("select max(at) <= %(now)s from focus_titles where owner_id = %(owner_id)s")
        assert await tx.scalar(latest) is True


async def test_a_list_takes_the_place_of_the_one_before(desk: SendDesk) -> None:
    """What is not in it is gone, what is still there keeps its session, and the rest is new."""
    other = new_session()
    ids = await show(
        desk.db, desk.owner, desk.host_id, window_of(other, 2), window_of(desk.session, 3)
    )
    assert ids is not None
    assert ids[desk.session] == desk.mirrored_id
    shown = {one.id: one for one in await sessions(desk)}
    assert {one.window for one in shown.values()} == {"@2", "@3"}
    await show(desk.db, desk.owner, desk.host_id, window_of(None, 1))
    assert await sessions(desk) == []
    ended = await sessions(desk, ended=True)
    assert {one.id for one in ended} == set(shown)
    assert {(one.shown, one.online, one.why_not) for one in ended} == {
        (False, False, "no window shows it")
    }


async def test_an_unchanged_list_writes_nothing(desk: SendDesk) -> None:
    """Told again, nothing is written down, and nobody is told to look at a session."""
    desk.db.touched.clear()
    await show(desk.db, desk.owner, desk.host_id, window_of(desk.session))
    assert [hint.kind for hint in desk.db.touched] == [HintKind.HOST_CHANGED]


async def test_a_session_in_two_panes(desk: SendDesk) -> None:
    """The active one counts, whichever is listed first."""
    active = window_of(desk.session, 2)
    aside = window_of(desk.session, 1, active=False)
    for windows in ((aside, active), (active, aside)):
        await show(desk.db, desk.owner, desk.host_id, *windows)
        (shown,) = await sessions(desk)
        assert (shown.window, shown.active, shown.can_take) == ("@2", True, True)


@pytest.mark.rule(338)
async def test_what_can_take_a_text(desk: SendDesk) -> None:
    """An interactive host that is online, the active pane, and a known state; else it says why."""
    assert (await session(desk)).can_take
    for changes, why in (
        ({"active": False}, "another pane of its window is the active one"),
        ({"state": PaneState.UNKNOWN}, "its Claude Code does not tell whether it is idle"),
    ):
        await show(desk.db, desk.owner, desk.host_id, window_of(desk.session, **changes))
        assert (await session(desk)).why_not is not None
        assert (await session(desk)).why_not.startswith(why)  # type: ignore[union-attr]
    for state in (PaneState.WORKING, PaneState.WAITING):
        await show(desk.db, desk.owner, desk.host_id, window_of(desk.session, state=state))
        assert (await session(desk)).can_take
        async with desk.db.transaction(desk.owner) as tx:
            assert [one.id for one in await online_targets(tx)] == [desk.mirrored_id]
    await desk.db.run(desk.muster, accept_host, accepting(desk.host_id, interactive=False))
    assert (await session(desk)).why_not == "box does not run with --interactive"
    release = ReleaseHost(host_id=desk.host_id, epoch=2)
    assert await desk.db.run(desk.muster, release_host, release)
    assert (await session(desk)).why_not == "box is offline"
    async with desk.db.transaction(desk.owner) as tx:
        assert await online_targets(tx) == []


async def test_a_gone_host_is_remembered_for_a_day(desk: SendDesk) -> None:
    """Its windows are shown as offline, with no state, for 24 hours, and its sessions then end."""
    release = ReleaseHost(host_id=desk.host_id, epoch=1)
    await desk.db.run(desk.muster, release_host, release)
    (shown,) = await sessions(desk)
    assert (shown.online, shown.shown, shown.state) == (False, True, PaneState.UNKNOWN)
    assert shown.idle_since is None
    desk.db.clock_offset += timedelta(hours=24)
    assert await sessions(desk) == []
    (ended,) = await sessions(desk, ended=True)
    assert (ended.id, ended.host, ended.shown) == (desk.mirrored_id, "box", False)


async def test_two_hosts_show_one_session(desk: SendDesk) -> None:
    """The pane that suits a paste best counts: online, active, interactive, idle."""
    other = await second_host(desk)
    aside = window_of(desk.session, active=False)
    await show(desk.db, desk.owner, other, aside)
    assert (await session(desk)).host == "box"
    await show(desk.db, desk.owner, desk.host_id, window_of(desk.session, state=PaneState.WORKING))
    await show(desk.db, desk.owner, other, window_of(desk.session))
    assert (await session(desk)).host == "laptop"
    release = ReleaseHost(host_id=other, epoch=1)
    await desk.db.run(desk.muster, release_host, release)
    shown = await session(desk)
    assert (shown.host, shown.online, shown.state) == ("box", True, PaneState.WORKING)
    assert [one.id for one in await sessions(desk)] == [desk.mirrored_id]


async def test_windows_of_one_name(desk: SendDesk) -> None:
    """Windows of two hosts with one title have their hosts in their names; one host's do not."""
    (alone,) = await sessions(desk)
    assert alone.name == "main:1"
    twin = new_session()
    await show(desk.db, desk.owner, await second_host(desk), window_of(twin))
    assert [one.name for one in await sessions(desk)] == ["main:1 · box", "main:1 · laptop"]
    found = await desk.db.run(desk.owner, find_session, twin)
    assert found is not None
    assert found.name == "main:1 · laptop"
    assert (await session(desk)).name == "main:1 · box"


async def test_a_session_counts_its_queue(desk: SendDesk) -> None:
    """What waits, is in hand or in doubt; and whether doubt holds it."""
    await desk.put()
    await desk.offered()
    assert ((await session(desk)).queued, (await session(desk)).held) == (2, False)
    await desk.cut_off()
    assert ((await session(desk)).queued, (await session(desk)).held) == (2, True)


async def test_nobody_sees_another_owners_sessions(desk: SendDesk) -> None:
    """An id of another owner's, of nobody's, and a session that no host showed are not found."""
    stranger = await add_owner(desk.db)
    for owner, mirrored_id in ((stranger, desk.mirrored_id), (desk.owner, 2**53), (desk.owner, 0)):
        with pytest.raises(NotFound):
            await desk.db.run(owner, get_session, mirrored_id)
    assert await desk.db.run(stranger, find_session, desk.session) is None
    assert await desk.db.run(stranger, list_sessions, ListSessions()) == []


async def test_one_session_of_two_owners(desk: SendDesk) -> None:
    """The same Claude id under two owners is two sessions."""
    other = await open_send_desk(desk.db, await add_owner(desk.db))
    await show(desk.db, other.owner, other.host_id, window_of(desk.session))
    assert await find_mirrored(desk.db, other.owner, desk.session) != desk.mirrored_id
