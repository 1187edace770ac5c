"""The plugin's door over a real socket: every answer of the author's contract."""

from datetime import UTC, datetime, timedelta

import httpx2
import pytest
import trio

from muster.drafts import operations as drafts
from muster.drafts.rules import Approve, State
from tests.support.builders import get_message, new_plugin
from tests.support.desk import Desk, OpenDesk, error_of
from tests.support.server import call_tool
from tests.support.waiting import until


async def draft_reply(at: Desk, external_id: str = "m1", body: str = "Noon works.") -> int:
    """Post a message, have the chief draft on its turn; the draft's id."""
    async with at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post(external_id)
        turn = await agent.next_frame("turn")
        arguments = {"message_id": message_id, "body": body}
        result = await call_tool(at.server, at.chief_token, "reply_draft", **arguments)
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        draft_id: int = result["structuredContent"]["draft_id"]
    return draft_id


async def approve(at: Desk, draft_id: int) -> None:
    """Approve as the owner, on the server's own database object, as a page would."""
    await at.server.node.db.run(at.owner, drafts.approve, Approve(draft_id=draft_id))


@pytest.mark.rule(4, 7, 10, 19, 64, 67, 68, 69, 76, 77, 78)
async def test_the_whole_loop_over_the_wire(desk: OpenDesk) -> None:
    """A message is posted, drafted on, approved, claimed, reported; each answer is as written."""
    async with desk() as at:
        draft_id = await draft_reply(at, body="Thanks, noon works.")
        assert (await at.claim()).status_code == 204
        await approve(at, draft_id)
        answer = await at.claim()
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        claimed = answer.json()
        assert set(claimed) == {"draft_id", "message_external_id", "body", "approved_at"}
        assert claimed["draft_id"] == draft_id
        assert claimed["message_external_id"] == "m1"
        assert claimed["body"] == "Thanks, noon works."
        assert claimed["approved_at"].endswith("Z")
        result = await at.report(draft_id, ok=True, external_ref="up-1", detail="250 ok")
        assert (result.status_code, result.json()) == (
            200,
            {"draft_id": draft_id, "status": "sent"},
        )
        assert result.headers["content-type"] == "application/json"
        view = await at.db.run(at.owner, drafts.get_draft, draft_id)
        assert (view.external_ref, view.detail) == ("up-1", "250 ok")


@pytest.mark.rule(33, 34, 35, 43)
async def test_a_repeat_answers_with_what_is_stored(desk: OpenDesk) -> None:
    """The same external_id again is 200 with the stored id and status, whatever else it says."""
    async with desk() as at:
        first = await at.send("messages", {"external_id": "m1", "body": "one"})
        assert (first.status_code, first.json()["status"]) == (202, "queued")
        again = await at.send("messages", {"external_id": "m1", "body": "two", "no_reply": True})
        assert (again.status_code, again.json()) == (200, first.json())
        assert first.headers["content-type"] == again.headers["content-type"] == "application/json"


@pytest.mark.rule(26, 27, 28, 29, 30, 31, 32)
async def test_every_field_is_stored_as_it_was_posted(desk: OpenDesk) -> None:
    """Each field of a post reaches the stored message; what was left out has its default."""
    fields: dict[str, object] = {
        "body": "Does noon work?",
        "sender": "Ada <ada@example.test>",
        "subject": "Lunch",
        "no_reply": True,
        "sender_verified": True,
        "thread": "t-1",
        "human_conversation": True,
    }
    async with desk() as at:
        full = {"external_id": "full", "received_at": "2000-01-02T05:04:05.25+02:00", **fields}
        posted = (await at.send("messages", full)).json()["id"]
        stored = await get_message(at.db, at.owner, posted)
        assert {name: getattr(stored, name) for name in fields} == fields
        assert stored.received_at == datetime(2000, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC)
        posted = (await at.send("messages", {"external_id": "bare", "body": "x"})).json()["id"]
        stored = await get_message(at.db, at.owner, posted)
        assert (stored.no_reply, stored.sender_verified, stored.human_conversation) == (False,) * 3
        assert (stored.sender, stored.subject, stored.received_at, stored.thread) == (None,) * 4


GOOD: dict[str, object] = {"external_id": "m1", "body": "hello"}
BAD_FIELDS: list[tuple[str, object]] = [
    ("external_id", ""),
    ("external_id", "a b"),
    ("external_id", "x" * 201),
    ("external_id", 7),
    ("body", ""),
    ("body", "é" * 8193),
    ("body", "nul\0"),
    ("body", None),
    ("sender", "s" * 201),
    ("sender", None),
    ("subject", "s" * 201),
    ("subject", ["x"]),
    ("received_at", "yesterday"),
    ("received_at", "2000-01-02T03:04:05"),
    ("received_at", 946782245),
    ("received_at", "2000-01-02T03:04:05+0530"),
    ("received_at", "0001-01-01T00:00:00+14:00"),
    ("no_reply", "false"),
    ("no_reply", 0),
    ("sender_verified", "true"),
    ("thread", ""),
    ("thread", "a\u00a0b"),
    ("human_conversation", None),
    ("colour", "red"),
]


@pytest.mark.rule(23, 25, 26, 27, 28, 29, 30, 31, 32, 36, 44)
async def test_each_bad_field_is_a_400_that_names_it(desk: OpenDesk) -> None:
    """Every broken field rule is refused by name, and nothing is stored."""
    async with desk() as at:
        for field, value in BAD_FIELDS:
            answer = await at.send("messages", {**GOOD, field: value})
            assert answer.status_code == 400, (field, value, answer.text)
            assert error_of(answer)["field"] == field, answer.text
        for missing in GOOD:
            body = {name: value for name, value in GOOD.items() if name != missing}
            answer = await at.send("messages", body)
            assert (answer.status_code, error_of(answer)["field"]) == (400, missing)
        assert (await at.send("messages", GOOD)).status_code == 202


@pytest.mark.rule(23, 25, 26, 27, 28, 31)
async def test_values_at_the_very_edge_are_taken(desk: OpenDesk) -> None:
    """200 bytes, 16 KiB and 200 characters are within the limits, also when escaped in JSON."""
    async with desk() as at:
        edge = {
            "external_id": "é" * 100,
            "body": "é" * 8192,
            "sender": "\U0001f600" * 200,
            "subject": "é" * 200,
            "thread": "t" * 200,
            "received_at": "2000-01-02T03:04:05.678+05:30",
        }
        assert (await at.send("messages", edge)).status_code == 202
        escaped = {**GOOD, "external_id": "m2", "body": "\x01" * 16384}
        assert (await at.send("messages", escaped)).status_code == 202


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"external_id":"m1","body":"a","body":"b"}',
        b'{"external_id":"m1","body":"a","\\ud800":1,"\\ud800":1}',
        b'{"external_id":"m1","body":"\xff"}',
        b'{"external_id":"m1","body":"\\ud800"}',
        b"[" * 100_000,
        b'{"external_id":"m1","body":"a","x":' + b"[" * 50_000,
        b'{"external_id":"m1","body":"a"} trailing',
        b'{"external_id":"m1","body":"a","received_at":NaN}',
    ],
)
@pytest.mark.rule(36)
async def test_what_is_no_json_object_is_a_clear_400(desk: OpenDesk, raw: bytes) -> None:
    """Broken JSON, broken UTF-8, doubled keys and endless nesting are refused, and it serves on."""
    async with desk() as at, at.server.client(at.plugin_token) as client:
        answer = await client.post("/plugin/v1/messages", content=raw)
        assert answer.status_code == 400, answer.text
        error_of(answer)
        assert (await client.post("/plugin/v1/messages", json=GOOD)).status_code == 202


@pytest.mark.rule(61, 62, 65, 66)
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 204),
        (b'{"wait_seconds": 0}', 204),
        (b"{}", 400),
        (b'{"wait_seconds": -1}', 400),
        (b'{"wait_seconds": "0"}', 400),
        (b'{"wait_seconds": null}', 400),
        (b'{"wait_seconds": true}', 400),
        (b'{"wait_seconds": 0.5}', 400),
        (b'{"wait_seconds": 0, "more": 1}', 400),
        (b"[]", 400),
        (b"nonsense", 400),
    ],
)
async def test_the_claims_body(desk: OpenDesk, raw: bytes, status: int) -> None:
    """An empty body waits for nothing; all but {"wait_seconds": n} is refused."""
    async with desk() as at, at.server.client(at.plugin_token) as client:
        with trio.fail_after(10):  # any wait that an empty body might be taken for is longer
            answer = await client.post("/plugin/v1/drafts/claim", content=raw)
        assert answer.status_code == status
        if status == 204:
            assert answer.content == b""
        else:
            error_of(answer)


@pytest.mark.rule(61)
@pytest.mark.parametrize("asked", [25, 26, 2**63, 10**30])
async def test_a_claim_may_ask_for_any_wait(desk: OpenDesk, asked: int) -> None:
    """A wait of more than 25 seconds is no error; a server that drains lets nobody wait."""
    async with desk() as at:
        at.server.node.waiters.drain()
        assert (await at.claim(asked)).status_code == 204


@pytest.mark.rule(63, 64)
async def test_a_parked_claim_is_answered_by_the_approval(desk: OpenDesk) -> None:
    """A claim that waits gets the reply as soon as the owner approves it."""
    async with desk() as at:
        draft_id = await draft_reply(at)
        answers: list[httpx2.Response] = []

        async def park() -> None:
            answers.append(await at.claim(20))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(park)
                await until(at.server.node.waiters.plugin_ids)
                await approve(at, draft_id)
        assert answers[0].json()["draft_id"] == draft_id


@pytest.mark.rule(75, 76, 77, 80)
@pytest.mark.parametrize(
    ("result", "field"),
    [
        ({}, "ok"),
        ({"ok": "true"}, "ok"),
        ({"ok": None}, "ok"),
        ({"ok": True, "external_ref": "r" * 201}, "external_ref"),
        ({"ok": True, "detail": "é" * 2049}, "detail"),
        ({"ok": True, "detail": "nul\0"}, "detail"),
        ({"ok": True, "extra": 1}, "extra"),
    ],
)
async def test_a_bad_result_is_a_400_and_records_nothing(
    desk: OpenDesk, result: dict[str, object], field: str
) -> None:
    """Each broken field of a result is refused by name; the reply keeps its state."""
    async with desk() as at:
        draft_id = await draft_reply(at)
        await approve(at, draft_id)
        await at.claim()
        answer = await at.report(draft_id, **result)
        assert (answer.status_code, error_of(answer)["field"]) == (400, field)
        view = await at.db.run(at.owner, drafts.get_draft, draft_id)
        assert view.state is State.APPROVED
        assert (await at.report(draft_id, ok=True, detail="é" * 2048)).status_code == 200


@pytest.mark.rule(79, 81, 82, 83)
async def test_results_that_do_not_fit(desk: OpenDesk) -> None:
    """Never claimed is 409, claimed by nobody here 404, the same again 200, the other one 409."""
    async with desk() as at:
        draft_id = await draft_reply(at)
        early = await at.report(draft_id, ok=True)
        assert early.status_code == 409
        assert error_of(early) | {"error": "", "code": ""} == {
            "error": "",
            "code": "",
            "draft_id": draft_id,
            "status": "pending",
        }
        for nothing in (draft_id + 1_000_000, 2**63, "0", "-1", "x", "9" * 5000, "0" * 5000 + "1"):
            assert (await at.send(f"drafts/{nothing}/result", {"ok": True})).status_code == 404
        await approve(at, draft_id)
        assert (await at.report(draft_id, ok=True)).status_code == 409
        await at.claim()
        _, other_token = await new_plugin(at.db, at.owner, "other")
        async with at.server.client(other_token) as other:
            answer = await other.post(f"/plugin/v1/drafts/{draft_id}/result", json={"ok": True})
            assert answer.status_code == 404
        assert (await at.report(draft_id, ok=False, detail="bounced")).json()["status"] == "failed"
        again = await at.report(draft_id, ok=False, detail="other words")
        assert (again.status_code, again.json()["status"]) == (200, "failed")
        opposite = await at.report(draft_id, ok=True)
        assert opposite.status_code == 409
        assert error_of(opposite)["status"] == "failed"
        assert error_of(opposite)["draft_id"] == draft_id


@pytest.mark.rule(37, 39, 43)
async def test_the_hours_allowance_answers_429_with_a_wait_that_works(desk: OpenDesk) -> None:
    """The 61st message of an hour is 429; a repeat is still answered; obeying the header works."""
    async with desk() as at, at.server.client(at.plugin_token) as client:
        for number in range(60):
            body = {"external_id": f"m{number}", "body": "hello"}
            assert (await client.post("/plugin/v1/messages", json=body)).status_code == 202
        more = {"external_id": "m60", "body": "hello"}
        refused = await client.post("/plugin/v1/messages", json=more)
        assert refused.status_code == 429
        error_of(refused)
        wait = int(refused.headers["retry-after"])
        assert 0 < wait <= 3600
        repeat = {"external_id": "m0", "body": "hello"}
        assert (await client.post("/plugin/v1/messages", json=repeat)).status_code == 200
        at.db.clock_offset = timedelta(seconds=wait)
        assert (await client.post("/plugin/v1/messages", json=more)).status_code == 202
