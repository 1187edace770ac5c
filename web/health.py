"""`/healthz` and `/readyz`, for whoever watches the process. They take no credential.

`/healthz` says that the loop lives: it touches no database. `/readyz` says whether to send traffic
here: the database answers, its schema is this code's, the tree stands, nothing drains.
"""

from typing import Literal

import msgspec

from web.about import About, Says
from web.answers import Answer, answer
from web.routes import Asked, Route, Routes


class Alive(msgspec.Struct, frozen=True):
    """The loop lives."""

    status: Literal["ok"]


class Readiness(msgspec.Struct, frozen=True):
    """Whether to send traffic here, and if not, why."""

    status: Literal["ready", "unready"]
    reasons: list[str]


async def healthz(_asked: Asked) -> Answer:
    """Answer."""
    return answer(200, Alive(status="ok"))


async def readyz(asked: Asked) -> Answer:
    """Answer 200, or 503 with the reasons."""
    reasons = await asked.node.unready()
    status: Literal["ready", "unready"] = "unready" if reasons else "ready"
    return answer(503 if reasons else 200, Readiness(status=status, reasons=list(reasons)))


_HEALTHZ = About(
    name="healthz",
    summary="Whether the process lives",
    text="Touches no database.",
    says=(Says(status=200, when="It lives.", shape=Alive, example=Alive(status="ok")),),
)
_READYZ = About(
    name="readyz",
    summary="Whether to send traffic here",
    text="The database answers, its schema is this code's, nothing drains.",
    says=(
        Says(
            status=200,
            when="Yes.",
            shape=Readiness,
            example=Readiness(status="ready", reasons=[]),
        ),
        Says(status=503, when="No, for the reasons that it lists.", shape=Readiness),
    ),
)

HEALTH: Routes = (
    Route("GET", "/healthz", healthz, about=_HEALTHZ),
    Route("GET", "/readyz", readyz, about=_READYZ),
)
