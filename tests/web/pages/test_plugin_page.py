"""/plugins: creating and revoking, how each plugin is, and what the chief did not confirm."""

import re
from datetime import timedelta

import pytest

from muster.credentials.operations import note_seen
from muster.credentials.rules import NoteSeen
from muster.messages.rules import Fail, Message
from muster.pg.query import Query
from muster.plugins.operations import list_plugins
from muster.plugins.rules import ListPlugins
from muster.principals import Owner
from tests.support.builders import (
    begin,
    get_message,
    make_agent,
    make_draft,
    make_message,
    make_plugin,
    move_message,
    read_audit,
    revoke,
)
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, text_of
from tests.support.server import running_server
from tests.support.visitor import page_client, sign_in

NO_CHIEF = Query("update agents set chief = false where owner_id = %(owner_id)s")


async def cut_off(at: OwnerDesk, message: Message) -> Message:
    """A message whose turn broke off."""
    owner_id = at.owner.owner_id
    await move_message(at.db, message.id, begin(at.chief), owner_id=owner_id)
    return await move_message(at.db, message.id, Fail(epoch=1), owner_id=owner_id)


def row_of(page: str, name: str) -> str:
    """What the table says of a plugin."""
    rows = re.findall(r"<tr data-item>(.*?)</tr>", page, re.DOTALL)
    (found,) = [row for row in rows if f">{name}</a>" in row]
    return text_of(found)


@pytest.mark.rule(2, 3)
async def test_while_plugins_are_off_there_is_no_page(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """/plugins and what lies under it are 404 to everybody, and no page leads there."""
    async with running_server(db, cluster.app_url, MUSTER_PLUGINS="0") as server:
        visiting = await sign_in(server, owner)
        async with visiting.client, page_client(server) as guest, server.client() as program:
            for client in (visiting.client, guest, program):
                headers = {"Authorization": "Bearer mpl_whatever"} if client is program else {}
                for path in ("/plugins", "/plugins/1/revoke", "/plugins/messages/1/retry"):
                    for method in ("GET", "POST"):
                        answer = await client.request(method, path, headers=headers)
                        assert answer.status_code == 404, (path, method)
            assert 'href="/plugins"' not in (await visiting.get("/attention")).text


@pytest.mark.rule(8, 11, 12, 16)
async def test_a_plugins_token_is_shown_once(owner_desk: OpenOwnerDesk) -> None:
    """Creating one shows its token with lines that use it; the token works, and is never shown."""
    async with owner_desk() as at:
        form = {"name": "chat", "label": "Chat <b>", "scope": "chats"}
        made = await at.visiting.post("/plugins", **form)
        assert made.status_code == 201
        assert made.headers["cache-control"] == "no-store"
        (token,) = re.findall(r">(mpl_[A-Za-z0-9_-]+)<", made.text)
        assert "await run_plugin(client, journal, source=MySource(), sink=MySink())" in made.text
        async with at.server.client(token) as client:
            answer = await client.post("/plugin/v1/drafts/claim", json={"wait_seconds": 0})
            assert answer.status_code == 204
        page = await at.page("/plugins")
        assert token not in page
        assert "chat Chat <b> chats" in row_of(page, "chat")
        rows = await read_audit(at.db, at.owner, "plugin.added")
        assert [row.via for row in rows] == ["cli", "browser"]


@pytest.mark.rule(8, 16)
async def test_a_plugin_that_cannot_be_is_refused_in_its_form(owner_desk: OpenOwnerDesk) -> None:
    """A taken or misspelt name keeps what was typed and says why."""
    async with owner_desk() as at:
        for name, status, why in (("mail", 409, "named mail already"), ("Mail!", 400, "name")):
            answer = await at.visiting.post("/plugins", name=name, label="<Mail>", scope="mail")
            assert answer.status_code == status
            assert why in text_of(answer.text)
            assert 'value="&lt;Mail&gt;"' in answer.text
        assert len(await at.db.run(at.owner, list_plugins, ListPlugins())) == 1


@pytest.mark.rule(8)
async def test_a_plugin_is_revoked_for_good(owner_desk: OpenOwnerDesk) -> None:
    """Revoking ends exactly the plugin of the form: a form that is old ends no later namesake."""
    async with owner_desk() as at:
        path = f"/plugins/{at.plugin.plugin_id}/revoke"
        assert (await at.visiting.post(path, name="mail")).status_code == 303
        await make_plugin(at.db, at.owner, "mail")
        again = await at.visiting.post(path, name="mail")
        assert again.status_code == 404
        assert len(await at.db.run(at.owner, list_plugins, ListPlugins())) == 1
        page = await at.page("/plugins")
        assert "1 revoked plugin" in page
        (row,) = await read_audit(at.db, at.owner, "plugin.revoked")
        assert (row.via, row.subject) == ("browser", f"plugin:{at.plugin.plugin_id}")


@pytest.mark.rule(17, 18)
async def test_each_plugin_tells_how_it_is(owner_desk: OpenOwnerDesk, db: SpiedDatabase) -> None:
    """Last seen, what waits for the chief and what the hour holds, each counted by the clock."""
    async with owner_desk() as at:
        assert "never called" in row_of(await at.page("/plugins"), "mail")
        db.clock_offset = timedelta(minutes=5)
        seen = NoteSeen(credential_ids=frozenset({at.plugin.credential_id}))
        await db.run(at.owner, note_seen, seen)
        await at.queued()
        handed = await at.queued()
        await at.message()
        await move_message(db, handed.id, begin(at.chief), owner_id=at.owner.owner_id)
        row = row_of(await at.page("/plugins"), "mail")
        assert re.search(r" \d+ s ago 2 of 200 3 of 60", row), row
        db.clock_offset = timedelta(minutes=66)
        assert "1 h ago 2 of 200 0 of 60" in row_of(await at.page("/plugins"), "mail")


@pytest.mark.rule(224, 227, 228, 230)
async def test_an_unconfirmed_message_is_retried(owner_desk: OpenOwnerDesk) -> None:
    """Retry puts it back into the queue without a fresh sign-in; a second click is 409."""
    async with owner_desk() as at:
        message = await cut_off(at, await at.queued(sender="Gus\u202e", subject="Was it?"))
        page = text_of(await at.page("/plugins"))
        assert f"{message.id} Gus\\u{{202e}} unverified Was it? mail" in page
        at.db.clock_offset = timedelta(hours=13)
        path = f"/plugins/messages/{message.id}/retry"
        section = (await at.page("/plugins")).partition("Not confirmed by your chief</h2>")[2]
        assert re.search(rf'<form method="post"\s+action="{path}">\s*<button[^>]*>Retry', section)
        assert (await at.visiting.post(path)).status_code == 303
        assert (await get_message(at.db, at.owner, message.id)).state.value == "queued"
        second = await at.visiting.post(path)
        assert second.status_code == 409
        assert f"Message {message.id} is queued; only an unconfirmed one" in text_of(second.text)
        (row,) = await read_audit(at.db, at.owner, "plugin.retried")
        assert (row.via, row.subject) == ("browser", f"message:{message.id}")
        assert path not in await at.page("/plugins")


@pytest.mark.rule(225, 236)
async def test_without_a_chief_nothing_is_retried(owner_desk: OpenOwnerDesk) -> None:
    """The messages are listed, their buttons are disabled, and the section says why."""
    async with owner_desk() as at:
        message = await cut_off(at, await at.queued())
        async with at.db.transaction(at.owner) as tx:
            await tx.execute(NO_CHIEF)
        page = await at.page("/plugins")
        assert "You have no chief, so there is nobody to hand them to." in page
        assert re.search(r"<button[^>]* disabled", page)
        answer = await at.visiting.post(f"/plugins/messages/{message.id}/retry")
        assert answer.status_code == 409
        assert (await get_message(at.db, at.owner, message.id)).state.value == "unconfirmed"


@pytest.mark.rule(231, 235, 237)
async def test_what_cannot_be_retried_is_not_listed(
    owner_desk: OpenOwnerDesk, db: SpiedDatabase
) -> None:
    """Answered ones, those of a revoked plugin and other owners' are neither listed nor retried."""
    async with owner_desk() as at:
        answered = await at.queued()
        await move_message(db, answered.id, begin(at.chief), owner_id=at.owner.owner_id)
        await make_draft(db, at.chief, answered)
        await move_message(db, answered.id, Fail(epoch=1), owner_id=at.owner.owner_id)
        other = await make_plugin(db, at.owner, "other")
        orphan = await cut_off(at, await make_message(db, other))
        await revoke(db, at.owner, other)
        stranger = await add_owner(db)
        strangers = await make_message(db, await make_plugin(db, stranger))
        await make_agent(db, stranger)
        page = await at.page("/plugins")
        for message, status in ((answered, 409), (orphan, 409), (strangers, 404)):
            path = f"/plugins/messages/{message.id}/retry"
            assert path not in page
            assert (await at.visiting.post(path)).status_code == status
