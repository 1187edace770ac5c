"""The plugin's door, `/plugin/v1/*` (plugins: "The plugin author's contract").

| route                            | answers                                          |
|----------------------------------|--------------------------------------------------|
| POST /plugin/v1/messages         | 202 stored, 200 a repeat, 400, 401, 429          |
| POST /plugin/v1/drafts/claim     | 200 one reply, 204 none within the wait, 400, 401 |
| POST /plugin/v1/drafts/ID/result | 200, 400, 401, 404, 409                          |

While plugins are off none of these exists, and every one answers 404. Checks come in this order:
plugins off, credential, shape, idempotency, allowance.
"""

import functools
from typing import Literal, cast

import msgspec

from muster.drafts import operations as drafts
from muster.drafts.rules import Report, State
from muster.errors import NotFound
from muster.messages.rules import Post
from web.about import About, Says, Taken
from web.answers import Answer, answer, answer_nothing
from web.auth import prove_plugin
from web.bodies import ClaimBody, MessageBody, ResultBody, decode, given
from web.routes import Asked, Route, Routes
from web.times import read_time, write_time

DRAFT_ID_MAX = 2**63 - 1

Delivery = Literal["queued", "delivered", "unconfirmed"]


class StoredMessage(msgspec.Struct, frozen=True):
    """A message that muster has, by its id there."""

    id: int
    status: Delivery


class ClaimedReply(msgspec.Struct, frozen=True):
    """An approved reply, leased to this plugin for two minutes and never offered again."""

    draft_id: int
    message_external_id: str
    body: str
    approved_at: str


class RecordedResult(msgspec.Struct, frozen=True):
    """What a reply is now."""

    draft_id: int
    status: State


class OtherResult(msgspec.Struct, frozen=True):
    """The reply has another result already, or no claim holds it."""

    error: str
    code: str
    draft_id: int
    status: State


async def post_message(asked: Asked) -> Answer:
    """Step 1: store an inbound message, once."""
    principal = await prove_plugin(asked.node, asked.headers)
    body = decode(asked.body, MessageBody)
    received_at = given(body.received_at)
    post = Post(
        external_id=body.external_id,
        body=body.body,
        sender=given(body.sender),
        subject=given(body.subject),
        received_at=None if received_at is None else read_time(received_at, field="received_at"),
        no_reply=body.no_reply,
        sender_verified=body.sender_verified,
        thread=given(body.thread),
        human_conversation=body.human_conversation,
    )
    posted = await asked.node.receive(principal, post)
    stored = StoredMessage(id=posted.id, status=cast("Delivery", posted.status))
    return answer(202 if posted.created else 200, stored)


async def claim_draft(asked: Asked) -> Answer:
    """Step 4: hand out an approved reply, leased for two minutes, to one claim alone."""
    principal = await prove_plugin(asked.node, asked.headers)
    wait_seconds = decode(asked.body, ClaimBody).wait_seconds if asked.body else 0
    prove_again = functools.partial(prove_plugin, asked.node, asked.headers)
    claimed = await asked.node.claim(principal, wait_seconds, prove_again)
    if claimed is None:
        return answer_nothing()
    reply = ClaimedReply(
        draft_id=claimed.draft_id,
        message_external_id=claimed.message_external_id,
        body=claimed.body,
        approved_at=write_time(claimed.approved_at),
    )
    return answer(200, reply)


async def report_result(asked: Asked) -> Answer:
    """Step 4, its end: record what became of a claimed reply."""
    principal = await prove_plugin(asked.node, asked.headers)
    body = decode(asked.body, ResultBody)
    report = Report(
        draft_id=_draft_id(asked.id),
        ok=body.ok,
        external_ref=given(body.external_ref),
        detail=given(body.detail),
    )
    draft = await asked.node.db.run(principal, drafts.report, report)
    return answer(200, RecordedResult(draft_id=draft.id, status=draft.state))


_POST_MESSAGE = About(
    name="postMessage",
    summary="Bring an inbound message, once",
    text="The chief gets it as one turn. Whoever did not see an answer sends the same again.",
    takes=(Taken.PLUGIN,),
    body=MessageBody,
    body_example=MessageBody(
        external_id="msg-0001",
        sender="someone@example.invalid",
        subject="Lunch",
        body="Does noon work for you?",
        received_at="2026-03-01T10:00:00Z",
    ),
    says=(
        Says(
            status=202,
            when="Stored; delivery to the chief has begun.",
            shape=StoredMessage,
            example=StoredMessage(id=42, status="queued"),
        ),
        Says(
            status=200,
            when="This plugin sent this external_id before; nothing is stored again.",
            shape=StoredMessage,
            example=StoredMessage(id=42, status="delivered"),
        ),
        Says(status=400, when="A field breaks a rule.", codes=("invalid",)),
        Says(
            status=429,
            when="60 new messages in the last hour, or 200 that the chief does not have yet.",
            codes=("messages_per_hour", "messages_undelivered"),
        ),
    ),
)
_CLAIM_DRAFT = About(
    name="claimDraft",
    summary="Collect one approved reply",
    text="Waits up to wait_seconds for one. Each claim also has muster hand queued messages to the"
    " chief again. Give the HTTP client 10 seconds more than the wait: a claim whose answer is"
    " lost is still a claim.",
    takes=(Taken.PLUGIN,),
    body=ClaimBody,
    body_example=ClaimBody(wait_seconds=25),
    body_optional=True,
    says=(
        Says(
            status=200,
            when="One reply, leased for two minutes.",
            shape=ClaimedReply,
            example=ClaimedReply(
                draft_id=17,
                message_external_id="msg-0001",
                body="Thanks, noon works.",
                approved_at="2026-03-01T10:05:00Z",
            ),
        ),
        Says(status=204, when="Nothing to send within the wait; claim again."),
        Says(status=400, when="The body is not a wait.", codes=("invalid",)),
    ),
)
_REPORT_RESULT = About(
    name="reportResult",
    summary="Report what became of a claimed reply",
    text="The same result again changes nothing. A result that comes after the lease is recorded"
    " too.",
    takes=(Taken.PLUGIN,),
    id_meaning="the draft_id of the claimed reply",
    body=ResultBody,
    body_example=ResultBody(ok=True, external_ref="upstream-id-123"),
    says=(
        Says(
            status=200,
            when="Recorded: sent or failed.",
            shape=RecordedResult,
            example=RecordedResult(draft_id=17, status=State.SENT),
        ),
        Says(status=400, when="A field breaks a rule.", codes=("invalid",)),
        Says(status=404, when="This plugin claimed no such reply.", codes=("not_found",)),
        Says(
            status=409,
            when="It has the other result already, or was never claimed.",
            shape=OtherResult,
            codes=("draft_state",),
        ),
    ),
)

PLUGIN_API: Routes = (
    Route("POST", "/plugin/v1/messages", post_message, about=_POST_MESSAGE),
    Route("POST", "/plugin/v1/drafts/claim", claim_draft, waits=True, about=_CLAIM_DRAFT),
    Route("POST", "/plugin/v1/drafts/{id}/result", report_result, about=_REPORT_RESULT),
)


def _draft_id(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(DRAFT_ID_MAX))
    if not digits or int(text) > DRAFT_ID_MAX:
        raise NotFound("There is no such reply that this plugin claimed.")
    return int(text)
