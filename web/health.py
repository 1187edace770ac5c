"""`/healthz` and `/readyz`, for whoever watches the process. They take no credential.

`/healthz` says that the loop lives: it touches no database. `/readyz` says whether to send traffic
here: the database answers, its schema is this code's, the tree stands, nothing drains.
"""

from quart import Blueprint, Response, current_app

from muster.node.node import Node
from web.answers import answer

health = Blueprint("health", __name__)


@health.get("/healthz")
async def healthz() -> Response:
    """Answer."""
    return answer(200, {"status": "ok"})


@health.get("/readyz")
async def readyz() -> Response:
    """Answer 200, or 503 with the reasons."""
    node = current_app.config["MUSTER_NODE"]
    assert isinstance(node, Node)
    reasons = await node.unready()
    status = "unready" if reasons else "ready"
    return answer(503 if reasons else 200, {"status": status, "reasons": reasons})
