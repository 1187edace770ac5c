"""Where an owner may be pushed to, and what becomes of a device."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.testing import cancel_at_every_step
from muster.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from muster.pg.database import Transaction
from muster.principals import Muster, Node, Owner
from muster.push import operations as push
from muster.push.operations import Plan, SettlePush, Taken, TakeNext
from muster.push.rules.deliveries import Answered
from muster.push.rules.devices import (
    DEVICES_MAX,
    AddNtfy,
    AddWebhook,
    check_kinds,
    check_url,
    takes_silence,
)
from muster.push.rules.words import read_items
from tests.support.barrier import collide
from tests.support.builders import read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.push_desk import PushDesk, push_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> AsyncIterator[PushDesk]:
    """A desk that no server knows of."""
    async with push_desk(db, owner) as opened:
        yield opened


@pytest.mark.parametrize(
    "url",
    [
        "https://push.example.test/a?b=c",
        "https://192.0.2.7:8443/",
        "https://[2001:db8::1]/",
        "http://localhost:8080/x",
        "http://127.0.0.1/",
        "http://127.8.9.10:1/",
        "http://[::1]:80/",
        "HTTPS://EXAMPLE.TEST/",
    ],
)
def test_addresses_that_are_pushed_to(url: str) -> None:
    """Https anywhere, and plain http on this machine, is the owner's own wish."""
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.test", "//example.test/", "https://", "https:///x", "https:example.test"),
        *("file:///etc/passwd", "ftp://example.test/", "gopher://127.0.0.1/", "javascript:1"),
        *("http://example.test/", "http://192.168.1.2/", "http://169.254.169.254/latest/"),
        *("http://localhost.example.test/", "http://127.0.0.1.example.test/", "http://0.0.0.0/"),
        *("https://ada:pw@example.test/", "https://ada@example.test/", "http://127.0.0.1@x.test/"),
        *("https://example.test:99999/", "https://example.test/#x", "https://example.test/ x"),
        *("https://example.test/\r\nX: y", "https://ex\\ample.test/", "https://[::1"),
        "https://é.x",
        "https://example.test/" + "x" * 1000,
    ],
)
def test_addresses_that_are_not(url: str) -> None:
    """What is not HTTP, carries a name, or leaves this machine in the clear is refused."""
    with pytest.raises(Invalid):
        check_url(url)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60).map(lambda t: f"http://{t}"))
def test_no_spelling_of_http_leaves_this_machine(url: str) -> None:
    """Whatever stands behind http://, what is taken names this machine and nobody else."""
    try:
        taken = check_url(url)
    except Invalid:
        return
    host = taken.removeprefix("http://").lower().partition("/")[0].partition("?")[0]
    assert host.startswith(("localhost", "127.", "[::1]", "[0", "[:")), taken


def test_what_a_device_can_be_told_of() -> None:
    """Kinds are those that stand in the form, each once and in one order."""
    assert [kind.value for kind in check_kinds(["task", "draft", "task"])] == ["draft", "task"]
    for wrong in ("test", "message", ""):
        with pytest.raises(Invalid):
            check_kinds([wrong])


def test_which_service_takes_no_silence() -> None:
    """Apple's hosts are told by their end, and by nothing that only looks like it."""
    assert not takes_silence("https://web.push.apple.com/x")
    assert takes_silence("https://web.push.apple.com.example.test/x")
    assert takes_silence("https://fcm.example.test/web.push.apple.com")


def test_items_that_a_tab_names() -> None:
    """What is no item is left out, and a tab that names too many is heard in part."""
    assert read_items("draft:17 ask:3 x draft: :1 task:1e3 task:-1") == {("draft", 17), ("ask", 3)}
    assert len(read_items(" ".join(f"task:{number}" for number in range(1, 1000)))) == 200


async def test_a_subscription_that_comes_again_is_the_same_device(desk: PushDesk) -> None:
    """A browser that subscribes again gets its new keys, and is no second device."""
    device_id = await desk.subscribe()
    again = attrs.evolve(desk.browser, auth=bytes(16))
    assert await desk.db.run(desk.owner, push.add_browser, again.subscription) == device_id
    assert len(await desk.devices()) == 1


async def test_bytes_that_are_no_key_are_refused(desk: PushDesk) -> None:
    """A key that is no point of the curve could never be encrypted for."""
    given = desk.browser.subscription
    for wrong in ("B" + "A" * 86, "", "%%%", given.p256dh[:-2]):
        with pytest.raises(Invalid):
            await desk.db.run(desk.owner, push.add_browser, attrs.evolve(given, p256dh=wrong))


async def test_an_owner_has_so_many_devices(desk: PushDesk) -> None:
    """The 21st is refused, also when two come at once; one that is there may come again."""
    commands = [AddWebhook(name="x", url=f"https://x.test/{n}") for n in range(DEVICES_MAX)]
    for command in commands[:-1]:
        await desk.db.run(desk.owner, push.add_webhook, command)

    def adding(number: int) -> Callable[..., Awaitable[str]]:
        command = AddWebhook(name="x", url=f"https://y.test/{number}")
        return lambda tx: push.add_webhook(tx, command)

    # Connections that are still to be opened would make them come one after the other.
    await collide(desk.db, *[(desk.owner, push.get_notified)] * 4)
    outcomes = await collide(desk.db, *[(desk.owner, adding(n)) for n in range(4)])
    assert sum(isinstance(one, Refused) for one in outcomes) == 3
    assert len(await desk.devices()) == DEVICES_MAX
    await desk.db.run(desk.owner, push.add_webhook, commands[0])


async def test_one_test_at_a_time(desk: PushDesk) -> None:
    """A second test waits for the first; a device that is not there is not found."""
    device_id = await desk.subscribe()
    await desk.db.run(desk.owner, push.test_device, device_id)
    with pytest.raises(Conflict):
        await desk.db.run(desk.owner, push.test_device, device_id)
    for verb in (push.test_device, push.remove_device):
        with pytest.raises(NotFound):
            await desk.db.run(desk.owner, verb, device_id + 1000)


async def test_what_is_done_to_devices_is_recorded(desk: PushDesk) -> None:
    """Adding and removing leave facts, without an address or a secret in them."""
    device_id = await desk.subscribe_ntfy("tk_secret")
    await desk.db.run(desk.owner, push.remove_device, device_id)
    rows = await read_audit(desk.db, desk.owner, "push.")
    assert [row.action for row in rows] == ["push.device.added", "push.device.removed"]
    assert {row.subject for row in rows} == {f"device:{device_id}"}
    assert "tk_secret" not in str(rows)
    assert desk.service.url not in str(rows)


async def test_a_removed_device_keeps_no_secret_and_is_sent_nothing(desk: PushDesk) -> None:
    """With a device go its secret and all that waits for it."""
    device_id = await desk.subscribe_ntfy("tk_secret")
    await desk.draft()
    muster = Muster(owner_id=desk.owner.owner_id)
    await desk.db.run(muster, push.plan, Plan())
    await desk.db.run(desk.owner, push.remove_device, device_id)
    assert await desk.states() == ["dropped"]
    assert await desk.db.run(muster, push.take_next, TakeNext(device_id=device_id)) is None
    planned = await desk.db.run(muster, push.plan, Plan())
    assert list(planned.due) == []


async def test_servers_share_one_key(desk: PushDesk) -> None:
    """However many servers need the key at once, there is one, and it stays."""
    keys = await collide(desk.db, *[(Node(), push.push_key)] * 4)
    assert len({str(key) for key in keys}) == 1
    assert await desk.db.run(Node(), push.push_key, None) == keys[0]


async def test_each_verb_is_whole_or_absent(desk: PushDesk) -> None:
    """Planning, taking and settling, cancelled at every step, leave what was or what is to be."""
    device_id = await desk.subscribe()
    muster = Muster(owner_id=desk.owner.owner_id)
    await desk.draft()

    async def check_planned(done: bool) -> None:
        assert await desk.states() in (["waiting"] if done else [], ["waiting"])

    await cancel_at_every_step(lambda: desk.db.run(muster, push.plan, Plan()), check_planned)
    assert await desk.states() == ["waiting"]
    taken = await desk.db.run(muster, push.take_next, TakeNext(device_id=device_id))
    assert isinstance(taken, Taken)
    done = SettlePush(taken=taken, answer=Answered(status=410), chance=0.5)

    async def check_settled(done: bool) -> None:
        gone = await desk.devices() == []
        assert gone or not done
        facts = await read_audit(desk.db, desk.owner, "push.device.removed")
        assert (await desk.states() == ["dropped"]) == gone == (len(facts) == 1)

    await cancel_at_every_step(lambda: desk.db.run(muster, push.settle, done), check_settled)
    assert await desk.devices() == []


async def test_an_ntfy_address_ends_without_a_slash(desk: PushDesk) -> None:
    """An address with and without a slash at its end is the same device."""
    for url in ("https://ntfy.example.test", "https://ntfy.example.test/"):
        command = AddNtfy(name="Phone", url=url, topic="mine")
        await desk.db.run(desk.owner, push.add_ntfy, command)
    (device,) = await desk.devices()
    assert device.host == "ntfy.example.test"


@pytest.mark.parametrize("status", [201, 410])
async def test_a_device_that_is_removed_while_a_push_ends(desk: PushDesk, status: int) -> None:
    """What came of two pushes and the removal of their device wait for each other in one order."""
    muster = Muster(owner_id=desk.owner.owner_id)
    for _ in range(4):
        device_id = await desk.subscribe()
        for _ in range(2):
            await desk.draft()
        await desk.db.run(muster, push.plan, Plan())
        taken = [
            await desk.db.run(muster, push.take_next, TakeNext(device_id=device_id))
            for _ in range(2)
        ]

        def settle(one: object) -> Callable[[Transaction], Awaitable[object]]:
            assert isinstance(one, Taken)
            command = SettlePush(taken=one, answer=Answered(status=status), chance=0.5)
            return lambda tx: push.settle(tx, command)

        outcomes = await collide(
            desk.db,
            *((muster, settle(one)) for one in taken),
            (desk.owner, partial(push.remove_device, device_id=device_id)),
        )
        assert not any(isinstance(outcome, Unavailable) for outcome in outcomes), outcomes
