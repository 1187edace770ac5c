"""Who may come in by which door, and what a door says to what it does not know."""

import json

import httpx2
import pytest
import trio

from muster.accounts.operations import disable_user, enable_user
from muster.accounts.rules import Disable, Enable
from muster.plugins.operations import revoke_plugin
from muster.plugins.rules import RevokePlugin
from tests.support.builders import new_agent
from tests.support.desk import OpenDesk, error_of
from tests.support.server import call_tool
from tests.support.waiting import until
from web.app import routes_of

GOOD: dict[str, object] = {"external_id": "m1", "body": "hello"}


@pytest.mark.rule(20, 21, 10)
async def test_every_dead_token_is_401(desk: OpenDesk) -> None:
    """Unknown, revoked, malformed, missing, doubled and disabled all get one answer, at once."""
    async with desk() as at:
        tokens = ["mpl_unknown", "mpl_", "\xff\xfe", "Bearer", at.plugin_token[:-1], "x" * 5000]
        async with at.server.client() as client:
            for token in tokens:
                headers = [(b"Authorization", f"Bearer {token}".encode("latin-1"))]
                answer = await client.post("/plugin/v1/messages", json=GOOD, headers=headers)
                assert answer.status_code == 401, token
                error_of(answer)
            for header in ([], [("Authorization", f"Basic {at.plugin_token}")]):
                answer = await client.post("/plugin/v1/messages", json=GOOD, headers=header)
                assert answer.status_code == 401
            twice = [("Authorization", f"Bearer {at.plugin_token}")] * 2
            answer = await client.post("/plugin/v1/messages", json=GOOD, headers=twice)
            assert answer.status_code == 401
        await at.db.run(at.owner, disable_user, Disable())
        assert (await at.claim()).status_code == 401
        await at.db.run(at.owner, enable_user, Enable())
        assert (await at.claim()).status_code == 204
        await at.db.run(at.owner, revoke_plugin, RevokePlugin(name="mail"))
        assert (await at.claim()).status_code == 401


@pytest.mark.rule(20, 21)
@pytest.mark.parametrize("how", ["revoked", "disabled"])
async def test_a_parked_claim_ends_401_when_its_right_ends(desk: OpenDesk, how: str) -> None:
    """Revoking the plugin or disabling the account answers the parked claims 401 at once."""
    async with desk() as at:
        answers: list[httpx2.Response] = []

        async def park() -> None:
            answers.append(await at.claim(20))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(park)
                await until(at.server.node.waiters.plugin_ids)
                server_db = at.server.node.db
                if how == "revoked":
                    await server_db.run(at.owner, revoke_plugin, RevokePlugin(name="mail"))
                else:
                    await server_db.run(at.owner, disable_user, Disable())
        assert answers[0].status_code == 401


@pytest.mark.rule(13, 14, 15)
async def test_each_credential_opens_its_own_doors_alone(desk: OpenDesk) -> None:
    """Every route refuses every kind of credential but its own; `mpl_` is 401 at any other path."""
    async with desk() as at:
        _, agent_token = await new_agent(at.db, at.owner, "second", chief=False)
        strangers = [agent_token, "mst_" + "a" * 43, "mmh_" + "a" * 43, "mskey_x", "hook-secret"]
        routes = [route.path for route in routes_of(at.server.node)]
        plugins_own = [path for path in routes if path.startswith("/plugin/v1/")]
        assert len(plugins_own) == 4
        async with at.server.client() as client:
            for path in plugins_own:
                for token in strangers:
                    headers = {"Authorization": f"Bearer {token}", "Cookie": "session=abc"}
                    url = path.replace("{id}", "1")
                    answer = await client.post(url, json={}, headers=headers)
                    assert answer.status_code == 401, (path, token)
            headers = {"Authorization": f"bearer {at.plugin_token}", "Cookie": "session=abc"}
            nowhere = ("/mcp", "/", "/plugins", "/api/tasks", "/plugin", "/plugin/v2")
            for path in (*nowhere, *set(routes).difference(plugins_own)):
                for method in ("GET", "POST", "PUT"):
                    answer = await client.request(method, path, headers=headers)
                    assert answer.status_code == 401, (method, path)
                    assert error_of(answer)["code"] == "credential_not_allowed"
            for tokens in ((agent_token, at.plugin_token), (at.plugin_token, agent_token)):
                both = [("Authorization", f"Bearer {token}") for token in tokens]
                answer = await client.post("/mcp", json={}, headers=both)
                assert error_of(answer)["code"] == "credential_not_allowed"
            answer = await client.post(
                "/mcp", json={}, headers={"Authorization": "Bearer mst_" + "a" * 43}
            )
            assert answer.status_code == 401


@pytest.mark.rule(2, 3, 22)
async def test_while_plugins_are_off_every_plugin_route_is_404(desk: OpenDesk) -> None:
    """Off, the plugin's doors do not exist, whatever the credential, nor does the tool."""
    async with desk(MUSTER_PLUGINS="0") as at, at.server.client(at.plugin_token) as client:
        for path in ("messages", "drafts/claim", "drafts/1/result", "tasks", "anything"):
            for method in ("GET", "POST"):
                answer = await client.request(method, f"/plugin/v1/{path}", json={})
                assert answer.status_code == 404, (method, path)
                error_of(answer)
        for path in ("/plugins", "/plugins/new", "/plugin/v2/messages", "/plugin/"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.get("/healthz")).status_code == 401
        async with at.server.client() as nobody:
            assert (await nobody.post("/plugin/v1/messages", json=GOOD)).status_code == 404
            assert (await nobody.get("/plugins")).status_code == 404
        result = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=1, body="hello"
        )
        assert result["isError"]


async def test_a_client_that_ended_its_own_side_gets_its_answer(desk: OpenDesk) -> None:
    """After a whole request and a FIN the answer still comes, at doors that do not wait."""
    async with desk() as at:
        body = json.dumps(GOOD).encode()
        asked = (
            b"POST /plugin/v1/messages HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
            % (at.plugin_token.encode(), len(body), body)
        )
        for request in (asked, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            stream = await trio.open_tcp_stream("127.0.0.1", at.server.port)
            async with stream:
                await stream.send_all(request)
                await stream.send_eof()
                with trio.fail_after(5):
                    answer = b"".join([part async for part in stream])
            assert answer.split(b" ")[1] in (b"202", b"200"), answer


async def test_content_type_is_not_looked_at(desk: OpenDesk) -> None:
    """A plugin that sends no or another Content-Type is served like any."""
    async with desk() as at, at.server.client(at.plugin_token) as client:
        answer = await client.post(
            "/plugin/v1/messages",
            content=json.dumps(GOOD).encode(),
            headers={"Content-Type": "text/plain"},
        )
        assert answer.status_code == 202


async def test_wrong_methods_and_paths_answer_json(desk: OpenDesk) -> None:
    """404 and 405 are JSON as well; 405 says what is allowed."""
    async with desk() as at, at.server.client() as client:
        for path in ("/nothing", "/plugin/v1/nothing", "/plugin/v1/messages/", "//healthz", "/%00"):
            answer = await client.get(f"{at.server.url}{path}")
            assert answer.status_code in (400, 404), path
            error_of(answer)
        answer = await client.get("/plugin/v1/messages")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "POST"
        error_of(answer)


async def test_a_body_over_the_cap_of_its_route_is_413(desk: OpenDesk) -> None:
    """64 KiB for results and claims, 256 KiB for messages; one byte more is refused."""
    async with desk() as at, at.server.client(at.plugin_token) as client:
        for path, cap in (("messages", 256 * 1024), ("drafts/claim", 64 * 1024)):
            answer = await client.post(f"/plugin/v1/{path}", content=b" " * (cap + 1))
            assert answer.status_code == 413, path
            error_of(answer)
            answer = await client.post(f"/plugin/v1/{path}", content=b" " * cap)
            assert answer.status_code == 400, path
