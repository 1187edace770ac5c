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

from muster.drafts import operations as drafts
from muster.drafts.rules import Report
from muster.errors import NotFound
from muster.messages import operations as messages
from muster.messages.rules import Post
from web.answers import Answer, answer, answer_nothing
from web.auth import prove_plugin
from web.bodies import ClaimBody, MessageBody, ResultBody, decode, given
from web.routes import Asked, Route, Routes
from web.times import read_time, write_time

DRAFT_ID_MAX = 2**63 - 1


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
    posted = await asked.node.db.run(principal, messages.post, post)
    return answer(202 if posted.created else 200, {"id": posted.id, "status": posted.status})


async def claim_draft(asked: Asked) -> Answer:
    """Step 4: hand out an approved reply, leased for two minutes, to one claim alone."""
    principal = await prove_plugin(asked.node, asked.headers)
    wait_seconds = decode(asked.body, ClaimBody).wait_seconds if asked.body else 0
    prove_again = functools.partial(prove_plugin, asked.node, asked.headers)
    claimed = await asked.node.claim(principal, wait_seconds, prove_again)
    if claimed is None:
        return answer_nothing()
    return answer(
        200,
        {
            "draft_id": claimed.draft_id,
            "message_external_id": claimed.message_external_id,
            "body": claimed.body,
            "approved_at": write_time(claimed.approved_at),
        },
    )


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
    return answer(200, {"draft_id": draft.id, "status": draft.state.value})


PLUGIN_API: Routes = (
    Route("POST", "/plugin/v1/messages", post_message),
    Route("POST", "/plugin/v1/drafts/claim", claim_draft, waits=True),
    Route("POST", "/plugin/v1/drafts/{id}/result", report_result),
)


def _draft_id(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(DRAFT_ID_MAX))
    if not digits or int(text) > DRAFT_ID_MAX:
        raise NotFound("There is no such reply that this plugin claimed.")
    return int(text)
