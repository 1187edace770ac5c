"""A fleet report is made: the chief's own, or one that leaves muster (plugins).

The section is "A fleet-report request". One function makes both, so the chief sees what its owner's
muster would say, and more.
"""

from collections.abc import Sequence
from typing import assert_never

import attrs

from muster.fleet.reports import (
    PULL_REQUESTS_MAX,
    REPLY_BYTES_MAX,
    TITLES_MAX,
    TOOL_BYTES_MAX,
    About,
    Kind,
    Session,
    State,
    Work,
    choose,
    compose,
)
from muster.fleet.requests import Span
from muster.mirror.operations.seen import (
    During,
    Seen,
    Titles,
    TitlesOf,
    hosts_seen,
    list_seen,
    titles_of,
)
from muster.mirror.rules import FOCUS_KEPT, PaneState, subject_of
from muster.pg.database import Transaction
from muster.routes.operations.authored import Authored, ListAuthored, pull_requests_of


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
    span, is_narrow = command.span, command.paths is not None
    during = During(since=span.since, until=span.until)
    seen = {one.whose: one for one in await list_seen(tx, during)}
    choice = choose(map(_session, seen.values()), command.paths)
    hosts = await hosts_seen(tx)
    kept_since = tx.now - FOCUS_KEPT
    about = About(
        span=span,
        request_id=command.request_id,
        generated_at=tx.now,
        hosts=tuple(host.name for host in hosts),
        offline=tuple(host.name for host in hosts if not host.online),
        kept_since=kept_since if span.since < kept_since else None,
    )
    chosen = [seen[one.kind is Kind.AGENT, one.id] for one in choice.sessions]
    works = await _works(tx, chosen, during, summaries=is_narrow)
    bytes_max = REPLY_BYTES_MAX if is_narrow else TOOL_BYTES_MAX
    return compose(choice, works, about, bytes_max=bytes_max)


async def _works(
    tx: Transaction, chosen: Sequence[Seen], during: During, *, summaries: bool
) -> dict[tuple[Kind, int], Work]:
    wanted = TitlesOf(seen=chosen, during=during, most=TITLES_MAX, summaries=summaries)
    titles = await titles_of(tx, wanted)
    authored = await pull_requests_of(
        tx,
        ListAuthored(
            claude_sessions=[one.claude_session for one in chosen if one.claude_session],
            since=during.since,
            until=during.until,
            most=PULL_REQUESTS_MAX,
        ),
    )
    nothing = Authored(pull_requests=(), in_all=0)
    return {
        (_kind(one), one.id): _work(
            titles.get(one.whose, Titles()), authored.get(one.claude_session or "", nothing)
        )
        for one in chosen
    }


def _work(titles: Titles, authored: Authored) -> Work:
    return Work(
        titles=titles.newest,
        titles_in_all=titles.in_all,
        prompts=titles.others,
        pull_requests=authored.pull_requests,
        pull_requests_in_all=authored.in_all,
    )


def _session(seen: Seen) -> Session:
    return Session(
        id=seen.id,
        kind=_kind(seen),
        subject=_subject(seen),
        name=seen.name,
        host=seen.host,
        repo=seen.repo,
        repo_directory=seen.repo_directory,
        state=_state(seen.state),
        first_seen_at=seen.first_seen_at,
        last_seen_at=seen.last_seen_at,
        directory=seen.directory,
        titled_at=seen.titled_at,
    )


def _kind(seen: Seen) -> Kind:
    return Kind.MIRROR if seen.agent is None else Kind.AGENT


def _subject(seen: Seen) -> str:
    if seen.claude_session is not None:
        return subject_of(seen.claude_session)
    assert seen.agent is not None, "it is a session or an agent"
    return f"agent:{seen.agent}"


def _state(state: PaneState | None) -> State:
    match state:
        case None:
            return State.ENDED
        case PaneState.WORKING:
            return State.ACTIVE
        case PaneState.WAITING | PaneState.IDLE | PaneState.UNKNOWN:
            return State.WAITING
        case _:
            assert_never(state)
