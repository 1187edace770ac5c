"""A request for a fleet report is answered in code, and every other mail is left alone."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from actors.testing import cancel_at_every_step
from muster.config import Config, ConfigError
from muster.drafts.operations import ListDrafts, list_drafts
from muster.drafts.rules import PENDING_PER_AGENT_MAX
from muster.messages.operations import ListMessages, list_messages
from muster.messages.rules import State
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.agent_mail import GATE
from tests.support.builders import make_draft, make_message, make_plugin, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.fleet_desk import PATH, SETTINGS, FleetDesk, fleet_desk

TURNS = Query("select count(*) from turns where owner_id = %(owner_id)s")
NO_CHIEF = Query("update agents set chief = false where owner_id = %(owner_id)s")
ON = {"HOME": "/nonexistent", "MUSTER_PLUGINS": "1"}


@pytest.fixture
async def desk(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[FleetDesk]:
    """The owner's desk."""
    async with fleet_desk(db, owner, cluster) as opened:
        yield opened


@pytest.mark.rule(365)
def test_reports_are_off_unless_both_settings_are_there() -> None:
    """Senders without paths are a boot error; paths alone, or without plugins, do nothing."""
    assert not Config.from_environ(ON).answers_fleet_requests
    paths = {"MUSTER_FLEET_REPORT_PATHS": f"{PATH}, /srv/other ,{PATH}"}
    assert not Config.from_environ(ON | paths).answers_fleet_requests
    config = Config.from_environ(ON | paths | {"MUSTER_FLEET_REPORT_SENDERS": GATE})
    assert config.answers_fleet_requests
    assert config.fleet_report_senders == {GATE}
    assert config.fleet_report_paths == (PATH, "/srv/other")
    assert not Config.from_environ({"HOME": "/nonexistent"} | SETTINGS).answers_fleet_requests
    with pytest.raises(ConfigError) as caught:
        Config.from_environ(ON | {"MUSTER_FLEET_REPORT_SENDERS": GATE})
    (fault,) = caught.value.faults
    assert fault == "MUSTER_FLEET_REPORT_SENDERS needs MUSTER_FLEET_REPORT_PATHS beside it."


@pytest.mark.rule(365)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_FLEET_REPORT_PATHS", value)
        for value in ("/", "//", "srv", "~/x", "/srv/", "/srv//x", "/srv/../x", "/a,/srv/.", ",",
                      "//srv/x", "/srv/a\x07")
    ]
    + [("MUSTER_FLEET_REPORT_SENDERS", value) for value in ("gate", "example/*", "a@b.example")],
)  # fmt: skip
def test_a_path_or_a_sender_of_another_form_is_a_boot_error(name: str, value: str) -> None:
    """A path is absolute, normalised and not the root; a sender is one exact address."""
    with pytest.raises(ConfigError) as caught:
        Config.from_environ(ON | SETTINGS | {name: value})
    assert all(fault.startswith(name) for fault in caught.value.faults)


@pytest.mark.rule(366, 369, 380)
async def test_a_request_is_answered_without_a_turn(desk: FleetDesk) -> None:
    """Handed over, settled, its reply filed approved, and collected by the plugin's next claim."""
    message_id = await desk.ask(thread="t-1", subject="Standup")
    mail = desk.mail
    message = await mail.message(message_id)
    assert message.state is State.DELIVERED
    assert message.agent_id == desk.chief.agent_id
    assert message.settle_reason == "It asked for a fleet report, and muster answered it."
    async with mail.db.transaction(mail.owner) as tx:
        assert await tx.scalar(TURNS) == 0
    rows = await read_audit(mail.db, mail.owner, "plugin.")
    told = {row.action: row for row in rows if row.action != "plugin.added"}
    assert list(told) == [
        "plugin.message.received",
        "plugin.delivered",
        "plugin.message.settled",
        "plugin.draft.filed",
        "plugin.draft.approved",
    ]
    assert told["plugin.message.received"].actor == "plugin:agent-mail"
    assert told["plugin.delivered"].data["fleet_report"] is True
    approved = told["plugin.draft.approved"]
    assert (approved.actor, approved.data["auto"], approved.data["via"]) == (
        "muster", True, "fleet_report",
    )  # fmt: skip
    claimed = await desk.claim()
    assert claimed is not None
    assert claimed.message_external_id == message.external_id
    assert '"type":"fleet_report","v":1,"request_id":"r-1"' in claimed.body


@pytest.mark.rule(369)
async def test_an_answered_request_never_becomes_an_ask(desk: FleetDesk) -> None:
    """It is settled, so nobody is asked about it however long its reply takes."""
    await desk.ask()
    await desk.mail.shift(timedelta(hours=1))
    await desk.mail.sweep_unrouted()
    assert not await desk.mail.told("ask.")


@pytest.mark.rule(366, 368)
@pytest.mark.parametrize(
    "fields",
    [
        {"sender_verified": False},
        {"sender": "example/other"},
        {"sender": "Example/gate"},
        {"sender": None},
        {"no_reply": True},
        {"body": "What did you do?"},
        {"body": '{"type": "fleet_report", "v": 1}'},
    ],
)
async def test_an_ordinary_mail_is_the_chiefs(desk: FleetDesk, fields: dict[str, object]) -> None:
    """Of another sender, not proven, without a reply, of another body: queued as any other."""
    assert await desk.mail.is_ordinary(await desk.ask(**fields))
    assert await desk.claim() is None


@pytest.mark.rule(366)
async def test_a_word_after_the_object_makes_it_an_ordinary_mail(desk: FleetDesk) -> None:
    """The whole body is the object; the subject is not read."""
    body = await desk.request()
    assert await desk.mail.is_ordinary(await desk.ask(body=f"{body} please"))
    short = '{"type":"fleet_report_request","v":1}'
    assert await desk.mail.is_ordinary(await desk.ask(body="Hello", subject=short))


@pytest.mark.rule(368)
async def test_without_a_chief_a_request_waits_like_any_other(desk: FleetDesk) -> None:
    """Nobody is there to be handed it."""
    async with desk.mail.db.transaction(desk.mail.owner) as tx:
        await tx.execute(NO_CHIEF)
    assert await desk.mail.is_ordinary(await desk.ask())


@pytest.mark.rule(366)
async def test_another_plugins_request_is_an_ordinary_mail(desk: FleetDesk) -> None:
    """Only the plugin named agent-mail brings requests."""
    other = await make_plugin(desk.mail.db, desk.mail.owner, "mail")
    assert await desk.mail.is_ordinary(await desk.ask(plugin=other))


@pytest.mark.rule(365)
async def test_while_reports_are_off_a_request_is_an_ordinary_mail(
    cluster: Cluster, db: SpiedDatabase, owner: Owner
) -> None:
    """Routing alone answers nothing."""
    off = dict.fromkeys(SETTINGS, "")
    async with fleet_desk(db, owner, cluster, **off) as desk:
        assert await desk.mail.is_ordinary(await desk.ask())


@pytest.mark.rule(365, 366)
async def test_reports_need_no_session_routing(
    cluster: Cluster, db: SpiedDatabase, owner: Owner
) -> None:
    """They are a feature of their own, and hold at the plugin's door."""
    settings = {"MUSTER_SESSION_ROUTING": "0"}
    async with fleet_desk(db, owner, cluster, **settings) as desk:
        body = await desk.request()
        async with desk.mail.server.client(await desk.mail.new_token()) as client:
            posted = await client.post(
                "/plugin/v1/messages",
                json={
                    "external_id": "m1", "body": body, "sender": GATE, "sender_verified": True
                },
            )  # fmt: skip
            assert posted.status_code == 202
            claimed = await client.post("/plugin/v1/drafts/claim", json={"wait_seconds": 0})
            draft = claimed.json()
            assert '"type":"fleet_report"' in draft["body"]
            done = await client.post(
                f"/plugin/v1/drafts/{draft['draft_id']}/result", json={"ok": True}
            )
            assert done.status_code == 200
    assert (await desk.mail.message(posted.json()["id"])).state is State.DELIVERED


@pytest.mark.rule(369)
async def test_drafts_that_wait_for_the_owner_hold_up_no_report(desk: FleetDesk) -> None:
    """Its reply waits for nobody, so it is none of the chief's twenty."""
    mail = desk.mail
    for _ in range(PENDING_PER_AGENT_MAX):
        message = await make_message(mail.db, mail.plugin, delivered_to=desk.chief)
        await make_draft(mail.db, desk.chief, message)
    assert (await desk.answered())["type"] == "fleet_report"


@pytest.mark.rule(366)
async def test_only_a_new_message_is_answered(desk: FleetDesk) -> None:
    """A repeat of its external id files no second reply."""
    first = await desk.ask(external_id="same")
    assert await desk.ask(external_id="same") == first
    drafts = await desk.mail.db.run(desk.mail.owner, list_drafts, ListDrafts())
    assert len(drafts) == 1


@pytest.mark.rule(372, 380)
async def test_a_bad_request_is_answered_without_data(desk: FleetDesk) -> None:
    """By the same way, with the same audit rows; the reply holds an error alone."""
    body = await desk.request(v=2)
    message_id = await desk.ask(body=body, external_id="bad")
    message = await desk.mail.message(message_id)
    assert message.settle_reason is not None
    assert message.settle_reason.startswith("It asked for a fleet report that cannot be made")
    told = await desk.answered(body=body, external_id="bad")
    assert set(told) == {"type", "v", "request_id", "error"}
    assert told["request_id"] == "r-1"
    window = await desk.window(zone="Nowhere")
    assert "zone" in (await desk.answered(body=await desk.request(window=window)))["error"]
    approved = await desk.mail.told("plugin.draft.approved")
    assert len(approved) == 2


@pytest.mark.rule(369, 380)
async def test_a_request_is_answered_whole_or_not_stored(desk: FleetDesk) -> None:
    """The message, its hand-over, its settling and its approved reply are there together."""
    mail = desk.mail

    async def ask() -> None:
        await desk.ask()

    async def check(completed: bool) -> None:
        stored = await mail.db.run(mail.owner, list_messages, ListMessages(limit=1000))
        assert stored or not completed
        assert {one.state for one in stored} <= {State.DELIVERED}
        assert all(one.settle_reason for one in stored)
        drafts = await mail.db.run(mail.owner, list_drafts, ListDrafts(limit=1000))
        assert {draft.message_id for draft in drafts} == {one.id for one in stored}
        assert {draft.state.value for draft in drafts} <= {"approved"}
        for action in ("plugin.delivered", "plugin.message.settled", "plugin.draft.approved"):
            assert len(await read_audit(mail.db, mail.owner, action)) == len(stored)

    assert await cancel_at_every_step(ask, check) >= 4
