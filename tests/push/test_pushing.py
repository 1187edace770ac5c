"""What a running server pushes: to whom, in which words, once, and what it takes back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import pytest

from muster.attention import operations as attention
from muster.chief.gating import CreateGated, create_gated, reserve_gated
from muster.chief.operations import unrouted
from muster.chief.operations.settle import SettleMessage, settle_message
from muster.principals import Muster, Owner, System
from muster.push import operations as push
from muster.push.rules.hours import QuietHours
from muster.push.sinks import sign
from muster.tasks import operations as tasks
from muster.tasks.operations import EditTask
from muster.tasks.operations.notices import NewTask, PostNotice, post_notice
from muster.tasks.rules import Edit, Status
from tests.support.builders import disable, make_plugin, read_now
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.push_desk import CANARY, PushDesk, push_desk
from tests.support.push_service import Answer, Request
from tests.support.server import Server, running_server
from tests.support.waiting import until


@pytest.fixture
async def server(db: SpiedDatabase, cluster: Cluster) -> AsyncIterator[Server]:
    """A server that pushes."""
    async with running_server(db, cluster.app_url) as running:
        yield running


@pytest.fixture
async def desk(server: Server, owner: Owner) -> AsyncIterator[PushDesk]:
    """A desk at that server."""
    async with push_desk(server.node.db, owner) as opened:
        yield opened


def path_of(request: Request) -> str:
    """Which device a request came to."""
    return request.path.split("/")[1]


@pytest.mark.rule(58, 258)
@pytest.mark.parametrize("verified", [True, False])
async def test_a_draft_is_pushed_in_musters_own_words(desk: PushDesk, verified: bool) -> None:
    """A reply draft is told of once, quotes nothing, and names an unverified sender as that."""
    await desk.subscribe()
    draft = await desk.draft(verified=verified)
    (note,) = await desk.notes(1)
    assert note["do"] == "show"
    assert note["title"] == "A reply draft awaits your approval"
    assert (note["body"] == "Unverified sender") is not verified
    assert note["path"] == f"/drafts/{draft.id}"
    (request,) = desk.service.requests
    assert request.headers["topic"] == note["tag"] == f"draft-{draft.id}"
    assert CANARY not in str(note)
    await desk.reaches("sent")
    (device,) = await desk.devices()
    assert device.last_success_at is not None
    assert device.last_error is None


@pytest.mark.rule(130, 245, 258)
async def test_every_kind_to_every_device_without_a_quote(desk: PushDesk) -> None:
    """Drafts, asks and tasks reach a browser, ntfy and a webhook, and no word of theirs leaves."""
    await desk.subscribe()
    await desk.subscribe_ntfy("tk_secret")
    secret = await desk.subscribe_webhook()
    draft, asked, task = await desk.draft(), await desk.ask(), await desk.task()
    requests = await desk.service.received(9)
    tags = {f"draft-{draft.id}", f"ask-{asked.id}", f"task-{task.id}"}
    to_browser = [r for r in requests if path_of(r) == "push"]
    assert {(await desk.open(r))["tag"] for r in to_browser} == tags
    assert len({len(r.body) for r in to_browser}) == 1
    to_ntfy = [r for r in requests if path_of(r) == "ntfy"]
    assert {r.json()["sequence_id"] for r in to_ntfy} == tags
    assert {r.headers["authorization"] for r in to_ntfy} == {"Bearer tk_secret"}
    to_hook = [r for r in requests if path_of(r) == "hook"]
    assert {r.json()["tag"] for r in to_hook} == tags
    assert {r.json()["title"] for r in to_hook} == {
        *("A reply draft awaits your approval", "A question awaits your answer", "New task"),
    }
    for request in to_hook:
        signature = sign(secret, request.headers["muster-timestamp"], request.body)
        assert request.headers["muster-signature"] == f"v1={signature}"
    assert len({r.headers["muster-delivery"] for r in to_hook}) == 3
    for request in requests:
        opened = str(await desk.open(request)) if request in to_browser else ""
        seen = opened + request.path + str(request.headers) + request.body.decode("latin-1")
        assert CANARY not in seen.lower()
    await desk.reaches(*["sent"] * 9)


@pytest.mark.rule(130, 245)
async def test_a_task_is_told_of_whoever_files_it(desk: PushDesk) -> None:
    """What a plugin's notice files, and what the chief files gated, is a new task like any."""
    await desk.subscribe()
    new = NewTask(title="Rotate the build key", body="It is old.")
    notice = PostNotice(key="tracker:1", create=new, namespaces=frozenset({"tracker"}))
    noticed = await desk.db.run(desk.plugin, post_notice, notice)
    work = CreateGated(title="Look into it", body="It is odd.")
    await desk.db.run(desk.chief, reserve_gated, work)
    gated = await desk.db.run(desk.chief, create_gated, work)
    notes = await desk.notes(2)
    assert {note["tag"] for note in notes} == {f"task-{noticed.task_id}", f"task-{gated.id}"}
    assert {note["title"] for note in notes} == {"New task"}


async def test_a_decision_clears_it_from_every_device(desk: PushDesk) -> None:
    """What was decided is closed on each device by a push of the same tag, and nothing else is."""
    await desk.subscribe()
    await desk.subscribe_ntfy()
    await desk.subscribe_webhook()
    draft, other = await desk.draft(), await desk.draft()
    await desk.service.received(6)
    await desk.reaches(*["sent"] * 6)
    await desk.reject(draft.id)
    cleared = (await desk.service.received(9))[6:]
    by_path = {path_of(request): request for request in cleared}
    note = await desk.open(by_path["push"])
    assert note == {"do": "clear", "tag": f"draft-{draft.id}"}
    assert by_path["push"].headers["topic"] == note["tag"]
    ntfy = by_path["ntfy"]
    assert (ntfy.method, ntfy.path) == ("PUT", f"/ntfy/mine/draft-{draft.id}/clear")
    assert (by_path["hook"].json()["event"], by_path["hook"].json()["id"]) == ("clear", draft.id)

    async def settled() -> bool:
        rows = await desk.rows()
        return {(row.item_id, row.state) for row in rows} == {
            (draft.id, "cleared"),
            (other.id, "sent"),
        }

    await until(settled)


@pytest.mark.rule(302)
async def test_an_ask_that_ends_clears_its_notification(desk: PushDesk) -> None:
    """Whoever ends an ask, its notification goes: here by a cancel of its asker."""
    await desk.subscribe()
    asked = await desk.ask()
    await desk.reaches("sent")
    await desk.db.run(desk.chief, attention.cancel, attention.Cancel(ask_id=asked.id))
    await desk.reaches("cleared")
    notes = await desk.notes(2)
    assert [note["do"] for note in notes] == ["show", "clear"]


@pytest.mark.rule(302)
async def test_a_later_disposition_clears_the_notification_of_musters_ask(
    desk: PushDesk, db: SpiedDatabase
) -> None:
    """Mail that nobody answered is pushed as an ask, and a settle takes it back at the sweep."""
    await desk.subscribe()
    plugin = await make_plugin(desk.db, desk.owner, "agent-mail")
    message = await attrs.evolve(desk, plugin=plugin).message()
    db.clock_offset += timedelta(minutes=15)
    muster = Muster(owner_id=desk.owner.owner_id)
    sweep = unrouted.AskAboutUnrouted()
    await desk.db.run(muster, unrouted.ask_about_unrouted, sweep)
    await desk.reaches("sent")
    settled = SettleMessage(message_id=message.id, reason="a notice")
    await desk.db.run(desk.chief, settle_message, settled)
    await desk.db.run(muster, unrouted.ask_about_unrouted, sweep)
    await desk.reaches("cleared")
    shown, cleared = await desk.notes(2)
    assert shown["title"] == "A question awaits your answer"
    assert cleared == {"do": "clear", "tag": shown["tag"]}


async def test_a_task_that_is_begun_clears_its_notification(desk: PushDesk) -> None:
    """News of a task goes once somebody has taken it up."""
    await desk.subscribe()
    task = await desk.task()
    await desk.reaches("sent")
    command = EditTask(task_id=task.id, edit=Edit(status=Status.IN_PROGRESS))
    await desk.db.run(desk.owner, tasks.edit_task, command)
    await desk.reaches("cleared")


async def test_what_was_there_before_the_device_is_not_pushed(desk: PushDesk) -> None:
    """A new device is told of what comes after it, not of all that waits already."""
    await desk.draft()
    await desk.subscribe()
    later = await desk.draft()
    (note,) = await desk.notes(1)
    assert note["tag"] == f"draft-{later.id}"


async def test_a_device_is_told_of_what_it_wants(desk: PushDesk) -> None:
    """Kinds that are switched off for a device are not pushed to it, and to others they are."""
    device_id = await desk.subscribe()
    await desk.subscribe_ntfy()
    command = push.SetKinds(device_id=device_id, kinds=frozenset({"ask"}))
    await desk.db.run(desk.owner, push.set_kinds, command)
    await desk.draft()
    await desk.ask()
    requests = await desk.service.received(3)
    assert sorted(path_of(request) for request in requests) == ["ntfy", "ntfy", "push"]
    (to_browser,) = [request for request in requests if path_of(request) == "push"]
    assert (await desk.open(to_browser))["tag"].startswith("ask-")


async def test_a_test_says_whether_the_device_is_reached(desk: PushDesk) -> None:
    """A test is one push, and its failure stands at the device in muster's own words."""
    device_id = await desk.subscribe()
    await desk.db.run(desk.owner, push.test_device, device_id)
    (note,) = await desk.notes(1)
    assert note["title"] == "muster reaches this device"
    await desk.reaches("cleared")
    desk.service.script.append(Answer(status=500, body=b"<b>internal words</b>"))
    await desk.db.run(desk.owner, push.test_device, device_id)
    await desk.reaches("cleared", "failed")
    (device,) = await desk.devices()
    assert device.last_error == "it answered 500"
    assert device.failing


def around(minute: int) -> QuietHours:
    """Quiet hours with this minute of the day well inside."""
    return QuietHours(from_minute=(minute - 60) % 1440, until_minute=(minute + 60) % 1440)


@asynccontextmanager
async def quiet(desk: PushDesk) -> AsyncIterator[None]:
    """Quiet hours around now, by the owner's clock."""
    now = await read_now(desk.db)
    hours = around(now.hour * 60 + now.minute)
    await desk.db.run(desk.owner, push.set_quiet_hours, hours)
    yield
    await desk.db.run(desk.owner, push.set_quiet_hours, None)


async def test_quiet_hours_hold_back_what_is_not_decided_meanwhile(desk: PushDesk) -> None:
    """In quiet hours only tests are sent; what was decided in them is dropped, the rest goes."""
    device_id = await desk.subscribe()
    async with quiet(desk):
        decided, left = await desk.draft(), await desk.draft()
        await desk.db.run(desk.owner, push.test_device, device_id)
        await desk.reaches("waiting", "waiting", "cleared")
        await desk.reject(decided.id)
        await desk.reaches("dropped", "waiting", "cleared")
        assert len(desk.service.requests) == 1
    await desk.reaches("dropped", "sent", "cleared")
    test, note = await desk.notes(2)
    assert (test["tag"], note["tag"]) == ("test", f"draft-{left.id}")


async def test_a_disabled_owner_is_pushed_nothing(desk: PushDesk) -> None:
    """Nothing is sent for an account that is disabled, though it waits and is due."""
    device_id = await desk.subscribe_ntfy()
    async with quiet(desk):
        await desk.draft()
        await desk.reaches("waiting")
        await disable(desk.db, desk.owner)
    muster = Muster(owner_id=desk.owner.owner_id)
    command = push.TakeNext(device_id=device_id)
    assert await desk.db.run(muster, push.take_next, command) is None
    listening = await desk.db.run(System(), push.list_listening, desk.owner.owner_id - 1)
    assert desk.owner.owner_id not in listening
    assert desk.service.requests == []


async def test_quiet_hours_close_notifications_all_the_same(desk: PushDesk) -> None:
    """What closes a notification makes no sound, and is sent in quiet hours too."""
    await desk.subscribe()
    draft = await desk.draft()
    await desk.reaches("sent")
    async with quiet(desk):
        await desk.reject(draft.id)
        await desk.reaches("cleared")


@pytest.fixture
def quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server look by itself all the time."""
    monkeypatch.setattr("muster.push.actor.SWEEP_SECONDS", 0.05)


async def test_quiet_hours_end_by_themselves(
    quick_sweeps: None, desk: PushDesk, db: SpiedDatabase
) -> None:
    """When the night is over, what waits is sent without anybody asking for it."""
    await desk.subscribe_ntfy()
    now = await read_now(db)
    hours = around(now.hour * 60 + now.minute)
    await desk.db.run(desk.owner, push.set_quiet_hours, hours)
    await desk.draft()
    await desk.reaches("waiting")
    db.clock_offset += timedelta(minutes=61)
    await desk.reaches("sent")


async def test_a_push_whose_hint_is_lost_is_sent_by_the_sweep(
    quick_sweeps: None, desk: PushDesk, db: SpiedDatabase
) -> None:
    """What is written without a word to the server is pushed, and cleared, all the same."""
    await desk.subscribe()
    silent = attrs.evolve(desk, db=db)  # its hints reach nobody
    draft = await silent.draft()
    await desk.reaches("sent")
    await silent.reject(draft.id)
    await desk.reaches("cleared")
    assert [note["do"] for note in await desk.notes(2)] == ["show", "clear"]
