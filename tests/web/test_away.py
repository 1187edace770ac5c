"""What a client is told when the database is away, or when a tool breaks."""

from collections.abc import Mapping

import httpx2
import pytest

from actors import Event
from muster.chief import tools
from muster.node.node import Node
from muster.pg.database import Transaction
from muster.pg.driver import Connection
from tests.support.desk import Desk, OpenDesk, error_of

ACCEPT = {"Accept": "application/json, text/event-stream"}


async def _ask_mcp(at: Desk, method: str, params: dict[str, object]) -> httpx2.Response:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with at.server.client(at.chief_token) as client:
        return await client.post("/mcp", json=request, headers=ACCEPT)


async def _take_nothing(*, fresh: bool = False) -> Connection:
    """Fail as the driver does when there is no server."""
    assert fresh in (True, False)
    return await Connection.open("host=/nowhere/inside password=hidden")


async def test_every_door_is_503_and_names_no_inner_part(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no database to reach each door says so, to come again, and nothing of the driver's."""
    async with desk() as at:
        node: Node = at.server.node
        with monkeypatch.context() as patched:
            patched.setattr(node.db.pool, "take", _take_nothing)
            answers = [
                await at.claim(),
                await at.send("messages", {"external_id": "m1", "body": "hello"}),
                await _ask_mcp(at, "tools/list", {}),
            ]
            for answer in answers:
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"] == "1"
                assert error_of(answer)["code"] == "unavailable"
            async with at.server.client() as client:
                ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "unready")
            for answer in (*answers, ready):
                assert "nowhere" not in answer.text
                assert "connection" not in answer.text
        assert (await at.claim()).status_code == 204


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("tools/call", {"name": "reply_draft", "arguments": {"message_id": 1, "body": "hello"}}),
    ],
)
async def test_a_tool_that_breaks_is_one_report_and_tells_nothing(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch, method: str, params: dict[str, object]
) -> None:
    """The agent is told that something broke; the words of the crash stand in the report alone."""

    async def broken(_tx: Transaction, _agent: object, **_on: bool) -> Mapping[str, object]:
        raise AssertionError("select secret from inside")

    async with desk() as at:
        monkeypatch.setattr(tools, "offered", broken)
        answer = await _ask_mcp(at, method, params)
        assert "Something broke on our side" in answer.text
        assert "inside" not in answer.text
        crashes = [
            report for report in at.server.node.log.recent() if report.event is Event.CRASHED
        ]
        (crash,) = crashes
        assert crash.path == f"root/web/mcp {method}"
        assert crash.error == "AssertionError: select secret from inside"


async def test_the_tool_door_takes_json_alone(desk: OpenDesk) -> None:
    """Another content type is 415 in the shape of every error."""
    async with desk() as at, at.server.client(at.chief_token) as client:
        for kind in ("text/plain", "application/jsonp", ""):
            answer = await client.post(
                "/mcp", content=b"{}", headers={**ACCEPT, "Content-Type": kind}
            )
            assert answer.status_code == 415, kind
            assert error_of(answer)["code"] == "unsupported_media_type"


@pytest.mark.rule(68)
async def test_nothing_to_claim_says_nothing_of_a_body(desk: OpenDesk) -> None:
    """A 204 has neither a length nor a type, which would speak of a body that is not there."""
    async with desk() as at:
        answer = await at.claim()
        assert answer.status_code == 204
        assert "content-length" not in answer.headers
        assert "content-type" not in answer.headers
