"""`muster drafts`: the replies that the chief wrote, and your word on each."""

import re
from typing import TYPE_CHECKING

import attrs
import click

from muster.commands.decisions import require_decisions
from muster.commands.messages import document as message_document
from muster.commands.messages import listed_sender, print_message
from muster.commands.next_step import to_type
from muster.commands.options import Id, json_option, limit_option, owner_option
from muster.commands.output import (
    age,
    local,
    print_heading,
    print_json,
    print_pairs,
    print_quoted,
    print_table,
    shown,
    utc,
)
from muster.commands.session import in_store
from muster.drafts.rules import Approve, Draft, Reject, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from muster.drafts.operations import ListDrafts
    from muster.drafts.store import DraftView
    from muster.messages.rules import Message
    from muster.pg.database import Transaction

UNCONFIRMED_LISTED_MAX = 1000
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
_DRAFT_ID = Id("draft")

MAYBE_GONE = "nobody knows whether it was sent: its plugin collected it and never said"
_TOLD = {
    State.PENDING: "waits for your word",
    State.APPROVED: "approved",
    State.SENT: "sent",
    State.FAILED: "its plugin could not send it",
    State.UNCONFIRMED: MAYBE_GONE,
    State.REJECTED: "rejected",
    State.SUPERSEDED: "another reply took its place",
    State.EXPIRED: "expired: it was not sent within 7 days",
}


@attrs.frozen(kw_only=True)
class Shown:
    """A draft, the message it answers, and what one should know before deciding."""

    draft: "DraftView"
    message: "Message"
    earlier_unconfirmed: list[int]
    already_sent: list[int]  # other replies to the same message
    now: "datetime"


@attrs.frozen(kw_only=True)
class Listing:
    """Drafts, by their ids the other replies to the same message that were sent, and the time."""

    drafts: "Sequence[DraftView]"
    already_sent: "Mapping[int, list[int]]"
    now: "datetime"


@click.group()
def drafts() -> None:
    """Read and decide the replies that wait.

    The chief writes a reply as a draft. Nothing leaves before you approve it, and what you approve
    is sent at most once, exactly as you read it.
    """


def _check_sha256(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and _SHA256.fullmatch(value) is None:
        raise click.BadParameter("a sha256 has 64 hexadecimal digits")
    return value


_sha256_option = click.option(
    "--sha256",
    metavar="HEX",
    callback=_check_sha256,
    help="Decide only if the text is the one with this digest, as `show` printed it.",
)


@drafts.command("list")
@owner_option
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only these.")
@limit_option
@json_option
def list_(owner: str | None, state: str | None, limit: int, *, as_json: bool) -> None:
    """List drafts, newest first; `--state pending` lists what waits for you.

    A message is marked `answered` when another reply to it was sent already. A narrow terminal has
    no room for Age, and then for Reply and To; --json tells all.
    """
    from muster.drafts.operations import ListDrafts

    command = ListDrafts(state=State(state) if state else None, limit=limit)
    listing = in_store(lambda store: store.run_as(owner, _list, command))
    if as_json:
        print_json(
            [
                _document(view) | {"already_sent": listing.already_sent[view.id]}
                for view in listing.drafts
            ]
        )
        return
    print_table(
        ("ID", "Age", "State", "Message", "To", "Reply"),
        [
            (
                str(view.id),
                age(view.created_at, listing.now),
                view.state.value,
                f"{view.message_id} answered"
                if listing.already_sent[view.id]
                else str(view.message_id),
                listed_sender(view.sender, verified=view.sender_verified),
                _first_words(view.body),
            )
            for view in listing.drafts
        ],
        empty=f"There is no {state} draft." if state else "There is no draft yet.",
        spare=("Age", "Reply", "To"),
    )


@drafts.command()
@click.argument("draft_id", metavar="ID", type=_DRAFT_ID)
@owner_option
@json_option
def show(draft_id: int, owner: str | None, *, as_json: bool) -> None:
    """Show a draft whole, with the message that it answers and its sha256."""
    seen = in_store(lambda store: store.run_as(owner, _show, draft_id))
    view = seen.draft
    if as_json:
        message = message_document(seen.message, {view.plugin_id: view.plugin})
        print_json(
            _document(view)
            | {
                "message": message | {"body": seen.message.body},
                "earlier_unconfirmed": seen.earlier_unconfirmed,
                "already_sent": seen.already_sent,
            }
        )
        return
    print_message(seen.message, view.plugin, seen.now)
    click.echo()
    print_heading(f"Draft {view.id}: the reply, {len(view.body)} characters")
    print_pairs(_pairs(view))
    print_quoted(view.body)
    click.echo()
    if seen.earlier_unconfirmed:
        listed = ", ".join(str(number) for number in seen.earlier_unconfirmed)
        click.echo(f"Careful: of draft {listed} to the same message {MAYBE_GONE}.")
    if seen.already_sent:
        listed = ", ".join(str(number) for number in seen.already_sent)
        click.echo(f"Careful: draft {listed} to the same message was sent already.")
    _print_next(view, owner)


@drafts.command()
@click.argument("draft_id", metavar="ID", type=_DRAFT_ID)
@owner_option
@_sha256_option
@json_option
def approve(draft_id: int, owner: str | None, sha256: str | None, *, as_json: bool) -> None:
    """Approve a pending draft: its plugin may collect and send it.

    With --sha256 another text than the one you read is refused.
    """
    from muster.drafts.operations import approve as operation

    require_decisions()
    command = Approve(draft_id=draft_id, sha256=sha256)
    decided = in_store(lambda store: store.run_as(owner, operation, command))
    _tell(decided, "is approved; its plugin collects it at its next call.", as_json=as_json)


@drafts.command()
@click.argument("draft_id", metavar="ID", type=_DRAFT_ID)
@owner_option
@_sha256_option
@json_option
def reject(draft_id: int, owner: str | None, sha256: str | None, *, as_json: bool) -> None:
    """Reject a pending draft, or take back an approval that no plugin has collected yet."""
    from muster.drafts.operations import reject as operation

    require_decisions()
    command = Reject(draft_id=draft_id, sha256=sha256)
    decided = in_store(lambda store: store.run_as(owner, operation, command))
    _tell(decided, "is rejected; it is never sent.", as_json=as_json)


async def _list(tx: "Transaction", command: "ListDrafts") -> Listing:
    from muster.drafts.operations import list_drafts, list_sent

    found = await list_drafts(tx, command)
    return Listing(drafts=found, already_sent=await list_sent(tx, found), now=tx.now)


async def _show(tx: "Transaction", draft_id: int) -> Shown:
    from muster.drafts.operations import ListDrafts, get_draft, list_drafts, list_sent
    from muster.messages.operations import get_message

    view = await get_draft(tx, draft_id)
    doubtful = await list_drafts(
        tx, ListDrafts(state=State.UNCONFIRMED, limit=UNCONFIRMED_LISTED_MAX)
    )
    return Shown(
        draft=view,
        message=await get_message(tx, view.message_id),
        earlier_unconfirmed=[
            other.id
            for other in doubtful
            if other.message_id == view.message_id and other.id < view.id
        ],
        already_sent=(await list_sent(tx, [view]))[view.id],
        now=tx.now,
    )


def _pairs(view: "DraftView") -> list[tuple[str, str]]:
    pairs = [
        ("State", _told_state(view)),
        ("Written", local(view.created_at)),
        ("sha256", view.body_sha256),
    ]
    if view.decided_at is not None:
        pairs.append(("Decided", f"{local(view.decided_at)} via {shown(view.decided_via)}"))
    if view.external_ref is not None:
        pairs.append(("Sent as", shown(view.external_ref)))
    if view.detail:
        pairs.append(("Plugin says", shown(view.detail)))
    return pairs


def _told_state(view: "DraftView") -> str:
    state, progress = view.state.value, _progress(view)
    return progress if progress.startswith(state) else f"{state} ({progress})"


def _progress(view: "DraftView") -> str:
    if view.state is State.APPROVED:
        return "not yet collected" if view.claimed_at is None else "its plugin is sending it"
    return _TOLD[view.state]


def _print_next(view: "DraftView", owner: str | None) -> None:
    whose = ("--owner", owner) if owner else ()
    approving = to_type("drafts", "approve", str(view.id), *whose, "--sha256", view.body_sha256)
    rejecting = to_type("drafts", "reject", str(view.id), *whose)
    if view.state is State.PENDING:
        click.echo(f"It expires {local(view.expires_at)}. To send exactly this text:")
        click.echo(f"  {approving}\nTo send nothing:\n  {rejecting}")
    elif view.state is State.APPROVED and view.claimed_at is None:
        click.echo("To take the approval back, as long as no plugin has collected it:")
        click.echo(f"  {rejecting}")


def _tell(decided: Draft, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "draft_id": decided.id,
                "message_id": decided.message_id,
                "state": decided.state.value,
                "decided_at": utc(decided.decided_at),
                "decided_via": decided.decided_via,
                "body_sha256": decided.body_sha256.hex(),
            }
        )
        return
    click.echo(f"Draft {decided.id} {sentence}", err=True)


def _first_words(body: str) -> str:
    words = " ".join(body.split())
    return words if len(words) <= 60 else words[:59] + "…"


def _document(view: "DraftView") -> dict[str, object]:
    return {
        "draft_id": view.id,
        "message_id": view.message_id,
        "message_external_id": view.message_external_id,
        "plugin": view.plugin,
        "plugin_id": view.plugin_id,
        "agent_id": view.agent_id,
        "sender": view.sender,
        "sender_verified": view.sender_verified,
        "subject": view.subject,
        "state": view.state.value,
        "body": view.body,
        "body_characters": len(view.body),
        "body_sha256": view.body_sha256,
        "created_at": utc(view.created_at),
        "expires_at": utc(view.expires_at),
        "decided_at": utc(view.decided_at),
        "decided_via": view.decided_via,
        "approved_at": utc(view.approved_at),
        "claimed_at": utc(view.claimed_at),
        "lease_expires_at": utc(view.lease_expires_at),
        "reported_at": utc(view.reported_at),
        "external_ref": view.external_ref,
        "detail": view.detail,
        "ended_at": utc(view.ended_at),
        "superseded_by": view.superseded_by,
    }
