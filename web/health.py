"""`/healthz` and `/readyz`, for whoever watches the process. They take no credential.

`/healthz` says that the loop lives: it touches no database. `/readyz` says whether to send traffic
here: the database answers, its schema is this code's, the tree stands, nothing drains.
"""

from web.answers import Answer, answer
from web.routes import Asked, Route, Routes


async def healthz(_asked: Asked) -> Answer:
    """Answer."""
    return answer(200, {"status": "ok"})


async def readyz(asked: Asked) -> Answer:
    """Answer 200, or 503 with the reasons."""
    reasons = await asked.node.unready()
    status = "unready" if reasons else "ready"
    return answer(503 if reasons else 200, {"status": status, "reasons": reasons})


HEALTH: Routes = (Route("GET", "/healthz", healthz), Route("GET", "/readyz", readyz))
