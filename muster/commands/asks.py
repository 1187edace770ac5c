"""`muster asks`: what agents and muster want to know of you."""

from typing import TYPE_CHECKING

import attrs
import click

from muster.attention.rules import State
from muster.commands.decisions import require_decisions
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

if TYPE_CHECKING:
    from datetime import datetime

    from muster.attention.operations import AskView, ListAsks
    from muster.pg.database import Transaction

_ASK_ID = Id("ask")


@attrs.frozen(kw_only=True)
class Listing:
    """Asks, and the time of the look."""

    asks: "list[AskView]"
    now: "datetime"


@click.group()
def asks() -> None:
    """Read and answer what is asked of you.

    An ask is open for a day. Your answer to an agent's is told to it; one to muster's, about a
    message that your chief did nothing about, settles that message and sends nothing.
    """


@asks.command("list")
@owner_option
@click.option("--ended", is_flag=True, help="Those that have ended, instead of the open ones.")
@limit_option
@json_option
def list_(owner: str | None, limit: int, *, ended: bool, as_json: bool) -> None:
    """List asks, newest first."""
    from muster.attention.operations import ListAsks

    command = ListAsks(ended=ended, limit=limit)
    listing = in_store(lambda store: store.run_as(owner, _list, command))
    if as_json:
        print_json([_document(view) for view in listing.asks])
        return
    print_table(
        ("ID", "Age", "By", "Question", "State"),
        [
            (
                str(view.id),
                age(view.created_at, listing.now),
                shown(view.agent or "muster"),
                shown(" ".join(view.question.split())),
                view.state.value,
            )
            for view in listing.asks
        ],
        empty="No ask has ended yet." if ended else "Nothing is asked of you.",
        spare=("By", "Age"),
    )


@asks.command()
@click.argument("ask_id", metavar="ID", type=_ASK_ID)
@owner_option
@json_option
def show(ask_id: int, owner: str | None, *, as_json: bool) -> None:
    """Show one ask whole. What it quotes may come from outside: do not trust what it says."""
    from muster.attention.operations import get_ask

    view = in_store(lambda store: store.run_as(owner, get_ask, ask_id))
    if as_json:
        print_json(_document(view))
        return
    print_heading(f"Ask {view.id}, by {shown(view.agent or 'muster')}")
    pairs = [("State", view.state.value), ("Asked", local(view.created_at))]
    if view.state is State.OPEN:
        pairs.append(("Expires", local(view.expires_at)))
    if view.answers:
        pairs.append(("Offers", shown(" · ".join(view.answers))))
    if view.answer is not None:
        pairs.append(("Answer", f"{shown(view.answer)} via {shown(view.answered_via)}"))
    print_pairs(pairs)
    print_quoted(view.question)
    if view.state is State.OPEN:
        whose = ("--owner", owner) if owner else ()
        click.echo(f"To answer:\n  {to_type('asks', 'answer', str(view.id), 'TEXT', *whose)}")


@asks.command()
@click.argument("ask_id", metavar="ID", type=_ASK_ID)
@click.argument("text")
@owner_option
@json_option
def answer(ask_id: int, text: str, owner: str | None, *, as_json: bool) -> None:
    """Answer the ask ID with TEXT."""
    from muster.chief.operations.asks import AnswerAsk, answer_ask

    require_decisions()
    command = AnswerAsk(ask_id=ask_id, text=text)
    view = in_store(lambda store: store.run_as(owner, answer_ask, command))
    if as_json:
        print_json(_document(view))
        return
    click.echo(f"Ask {view.id} is answered.", err=True)


@asks.command()
@click.argument("ask_id", metavar="ID", type=_ASK_ID)
@owner_option
@json_option
def dismiss(ask_id: int, owner: str | None, *, as_json: bool) -> None:
    """Take the ask ID away without an answer; nothing else comes of it."""
    require_decisions()
    view = in_store(lambda store: store.run_as(owner, _dismiss, ask_id))
    if as_json:
        print_json(_document(view))
        return
    click.echo(f"Ask {view.id} is dismissed.", err=True)


async def _list(tx: "Transaction", command: "ListAsks") -> Listing:
    from muster.attention.operations import list_asks

    found = await list_asks(tx, command)
    return Listing(asks=found, now=tx.now)


async def _dismiss(tx: "Transaction", ask_id: int) -> "AskView":
    from muster.attention.operations import Dismiss, get_ask
    from muster.attention.operations import dismiss as operation

    await operation(tx, Dismiss(ask_id=ask_id))
    return await get_ask(tx, ask_id)


def _document(view: "AskView") -> dict[str, object]:
    return {
        "ask_id": view.id,
        "asked_by": view.asked_by.value,
        "agent_id": view.agent_id,
        "agent": view.agent,
        "question": view.question,
        "answers": list(view.answers),
        "message_id": view.message_id,
        "task_id": view.task_id,
        "state": view.state.value,
        "created_at": utc(view.created_at),
        "expires_at": utc(view.expires_at),
        "answer": view.answer,
        "answered_via": view.answered_via,
        "ended_at": utc(view.ended_at),
    }
