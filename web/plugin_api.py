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

from quart import Blueprint, Response, current_app, request

from muster.drafts import operations as drafts
from muster.drafts.rules import Report
from muster.errors import NotFound
from muster.messages import operations as messages
from muster.messages.rules import Post
from muster.node.node import Node
from web.answers import answer, answer_nothing
from web.auth import prove_plugin
from web.bodies import ClaimBody, MessageBody, ResultBody, decode, given
from web.times import read_time, write_time

plugin_api = Blueprint("plugin_api", __name__, url_prefix="/plugin/v1")

DRAFT_ID_MAX = 2**63 - 1


@plugin_api.post("/messages")
async def post_message() -> Response:
    """Step 1: store an inbound message, once."""
    node, headers = _node(), request.scope["headers"]
    principal = await prove_plugin(node, headers)
    body = decode(await _body(), MessageBody)
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
    posted = await node.db.run(principal, messages.post, post)
    return answer(202 if posted.created else 200, {"id": posted.id, "status": posted.status})


@plugin_api.post("/drafts/claim")
async def claim_draft() -> Response:
    """Step 4: hand out an approved reply, leased for two minutes, to one claim alone."""
    node, headers = _node(), request.scope["headers"]
    principal = await prove_plugin(node, headers)
    raw = await _body()
    wait_seconds = decode(raw, ClaimBody).wait_seconds if raw else 0
    prove_again = functools.partial(prove_plugin, node, headers)
    claimed = await node.claim(principal, wait_seconds, prove_again)
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


@plugin_api.post("/drafts/<draft_id>/result")
async def report_result(draft_id: str) -> Response:
    """Step 4, its end: record what became of a claimed reply."""
    node = _node()
    principal = await prove_plugin(node, request.scope["headers"])
    body = decode(await _body(), ResultBody)
    report = Report(
        draft_id=_draft_id(draft_id),
        ok=body.ok,
        external_ref=given(body.external_ref),
        detail=given(body.detail),
    )
    draft = await node.db.run(principal, drafts.report, report)
    return answer(200, {"draft_id": draft.id, "status": draft.state.value})


def _node() -> Node:
    node = current_app.config["MUSTER_NODE"]
    assert isinstance(node, Node)
    return node


async def _body() -> bytes:
    raw = await request.get_data(as_text=False)
    assert isinstance(raw, bytes)
    return raw


def _draft_id(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(DRAFT_ID_MAX))
    if not digits or int(text) > DRAFT_ID_MAX:
        raise NotFound("There is no such reply that this plugin claimed.")
    return int(text)
