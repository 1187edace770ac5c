"""A fleet report is made: the chief's own, or one that leaves muster (plugins).

The section is "A fleet-report request". One function makes both, so the chief sees what its owner's
muster would say, and more.
"""

from collections.abc import Sequence

import attrs

from muster.fleet import store
from muster.fleet.requests import Span
from muster.fleet.rules import (
    PULL_REQUESTS_MAX,
    REPLY_BYTES_MAX,
    TOOL_BYTES_MAX,
    About,
    Kind,
    Session,
    Work,
    choose,
    compose,
)
from muster.mirror.rules import FOCUS_KEPT, SUBJECT_PREFIX
from muster.pg.database import Transaction
from muster.routes.operations.authored import ListAuthored, pull_requests_of


@attrs.frozen(kw_only=True)
class MakeReport:
    """A report on a window; no audit row, as it changes nothing.

    With `paths` it is one that leaves muster: narrowed to the sessions that work there, and of at
    most REPLY_BYTES_MAX. Without, it is the chief's, of at most TOOL_BYTES_MAX.
    """

    span: Span
    request_id: str | None = None
    paths: tuple[str, ...] | None = None


async def make_report(tx: Transaction, command: MakeReport) -> dict[str, object]:
    """What the owner's sessions worked on, as the document that is sent or told."""
    span, narrow = command.span, command.paths is not None
    there = await store.list_there(tx, span.since, span.until)
    choice = choose(there, command.paths)
    hosts = await store.list_hosts(tx)
    kept_since = tx.now - FOCUS_KEPT
    about = About(
        span=span,
        request_id=command.request_id,
        generated_at=tx.now,
        hosts=tuple(host.name for host in hosts),
        offline=tuple(host.name for host in hosts if not host.online),
        kept_since=kept_since if span.since < kept_since else None,
    )
    works = await _works(tx, choice.sessions, span, summaries=narrow)
    bytes_max = REPLY_BYTES_MAX if narrow else TOOL_BYTES_MAX
    return compose(choice, works, about, bytes_max=bytes_max)


async def _works(
    tx: Transaction, sessions: Sequence[Session], span: Span, *, summaries: bool
) -> dict[tuple[Kind, int], Work]:
    titles = await store.list_titles(
        tx,
        store.Window(sessions=sessions, since=span.since, until=span.until, summaries=summaries),
    )
    named = {one.subject.removeprefix(SUBJECT_PREFIX): one for one in sessions}
    authored = await pull_requests_of(
        tx,
        ListAuthored(
            claude_sessions=list(named), since=span.since, until=span.until, most=PULL_REQUESTS_MAX
        ),
    )
    works = {}
    for session_id, one in named.items():
        told, pull_requests = titles.get(one.key, store.Told()), authored.get(session_id)
        works[one.key] = Work(
            titles=told.titles,
            titles_in_all=told.in_all,
            prompts=told.prompts,
            pull_requests=() if pull_requests is None else pull_requests.pull_requests,
            pull_requests_in_all=0 if pull_requests is None else pull_requests.in_all,
        )
    return works
