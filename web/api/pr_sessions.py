"""A session's hook tells of a pull request that it created, or a branch that it pushed.

| route                 | does                                             | the hook token too |
|-----------------------|--------------------------------------------------|--------------------|
| POST /api/pr-sessions | notes the session as the author, the latest one  | yes                |

There is nothing here unless routing is on and MUSTER_PR_MAIL_SENDERS lists a review gate.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from muster.routes.operations.authors import Did, ReportAuthor, report_author
from web.about import About, Says, Taken
from web.answers import Answer, answer_bare
from web.api.reading import read_json
from web.auth import prove_api
from web.bodies import given
from web.routes import Asked, Route, Routes


class AuthorBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a session did: `gh-pr-create` with `pr`, or `git-push` with `head_ref` and no `pr`."""

    repo: Annotated[str, Meta(description="owner/repository; compared without case.")]
    claude_session: Annotated[str, Meta(description="The id of the Claude Code session.")]
    kind: Literal["gh-pr-create", "git-push"]
    pr: Annotated[int, Meta(description="The pull request's number.")] | UnsetType = UNSET
    head_ref: Annotated[str, Meta(description="The branch.")] | UnsetType = UNSET


async def report(asked: Asked) -> Answer:
    """Note an author (plugins: "A pull-request review mail")."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=True)
    body = read_json(asked, AuthorBody)
    command = ReportAuthor(
        repo=body.repo,
        kind=Did(body.kind),
        claude_session=body.claude_session,
        pr=given(body.pr),
        head_ref=given(body.head_ref),
    )
    is_new = await asked.node.db.run(owner, report_author, command)
    return answer_bare(201 if is_new else 200)


_REPORT = About(
    name="reportAuthor",
    summary="Note which session authored a pull request",
    text="A review of the pull request then goes to that session. What was not told again for 30"
    " days is forgotten.",
    takes=(Taken.PERSONAL, Taken.HOOK),
    body=AuthorBody,
    body_example=AuthorBody(
        repo="example/garden",
        claude_session="c0ffee00-0000-4000-8000-000000000001",
        kind="gh-pr-create",
        pr=12,
    ),
    says=(
        Says(status=201, when="Noted.", bodiless=True),
        Says(status=200, when="Noted before; it is the most recent now.", bodiless=True),
        Says(status=400, when="This is no such report.", codes=("invalid",)),
    ),
)

PR_SESSIONS_API: Routes = (Route("POST", "/api/pr-sessions", report, about=_REPORT),)
