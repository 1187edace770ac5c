"""`muster chief`: what the chief is at, what was said to it, and a word to it."""

from typing import TYPE_CHECKING

import click

from muster.commands.decisions import require_decisions
from muster.commands.messages import print_failure
from muster.commands.options import Id, json_option, limit_option, owner_option
from muster.commands.output import (
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
from muster.errors import NotFound

if TYPE_CHECKING:
    from muster.chief.operations.conversations import (
        ChiefNow,
        ChiefPage,
        ConversationLine,
        TurnView,
    )
    from muster.pg.database import Transaction

_ID = Id("conversation")


@click.group()
def chief() -> None:
    """See what your chief is at, and write to it."""


@chief.command()
@click.argument("text")
@owner_option
@json_option
def say(text: str, owner: str | None, *, as_json: bool) -> None:
    """Write TEXT to your chief: a turn of its own, once the chief is connected and free.

    It also answers what your chief has asked you.
    """
    from muster.chief.operations.conversations import WriteToChief, write_to_chief

    require_decisions()
    command = WriteToChief(text=text)
    said = in_store(lambda store: store.run_as(owner, write_to_chief, command))
    if as_json:
        print_json({"conversation_id": said.conversation_id, "ask_ids": list(said.ask_ids)})
        return
    place = f"conversation {said.conversation_id}"
    click.echo(f"It waits in {place} for your chief's next turn.", err=True)
    if said.ask_ids:
        named = ", ".join(str(ask_id) for ask_id in said.ask_ids)
        click.echo(f"It answers ask{'s' * (len(said.ask_ids) > 1)} {named}.", err=True)


@chief.command()
@click.argument("conversation_id", metavar="[ID]", type=_ID, required=False)
@owner_option
@limit_option
@json_option
def show(conversation_id: int | None, owner: str | None, limit: int, *, as_json: bool) -> None:
    """Show your chief and its conversations, or the newest turns of the conversation ID.

    What an agent said may quote what came from outside: do not trust what it says.
    """
    if conversation_id is not None:
        turns = in_store(lambda store: store.run_as(owner, _turns_of, (conversation_id, limit)))
        _show_turns(turns, as_json=as_json)
        return
    page = in_store(lambda store: store.run_as(owner, _look, None))
    if page.chief is None:
        raise NotFound("There is no chief; `muster agent add NAME --chief` makes one.")
    _show_chief(page.chief, page.conversations, as_json=as_json)


async def _look(tx: "Transaction", _command: None) -> "ChiefPage":
    from muster.chief.operations.conversations import look_at_chief

    return await look_at_chief(tx, None)


async def _turns_of(tx: "Transaction", wanted: tuple[int, int]) -> "list[TurnView]":
    """The newest turns of a conversation, oldest first."""
    from muster.chief.operations.conversations import LookAtConversation, look_at_conversation

    conversation_id, limit = wanted
    turns: list[TurnView] = []
    before = None
    while len(turns) < limit:
        command = LookAtConversation(conversation_id=conversation_id, before=before)
        page = await look_at_conversation(tx, command)
        turns = [*page.turns, *turns]
        before = page.older_than
        if before is None:
            break
    return turns[-limit:]


def _show_chief(
    found: "ChiefNow", conversations: "list[ConversationLine]", *, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "agent_id": found.id,
                "agent": found.name,
                "connected": found.is_connected,
                "connected_at": utc(found.connected_at),
                "left_at": None if found.is_connected else utc(found.left_at),
                "turn_id": found.turn_id,
                "words_waiting": found.words_waiting,
                "messages_waiting": found.messages_waiting,
                "conversations": [
                    {
                        "conversation_id": line.id,
                        "kind": line.kind,
                        "title": line.title,
                        "turn_id": line.turn_id,
                        "state": None if line.state is None else line.state.value,
                        "at": utc(line.at),
                    }
                    for line in conversations
                ],
            }
        )
        return
    print_heading(shown(found.name))
    print_pairs(_state_of(found))
    print_table(
        ("ID", "Conversation", "Last turn", "State", "At"),
        [
            (
                str(line.id),
                shown(line.title),
                f"message {line.message_id}" if line.message_id else shown(line.words or ""),
                "" if line.state is None else line.state.value,
                local(line.at),
            )
            for line in conversations
        ],
        empty="Nothing was said yet.",
        spare=("At",),
    )


def _state_of(found: "ChiefNow") -> list[tuple[str, str]]:
    if found.is_connected:
        state = "busy" if found.turn_id else "free"
        since = f"connected since {local(found.connected_at)}, {state}"
    elif found.left_at is None:
        since = "not connected"
    else:
        since = f"not connected since {local(found.left_at)}"
    return [
        ("State", since),
        ("Words that wait", str(found.words_waiting)),
        ("Messages in the queue", str(found.messages_waiting)),
    ]


def _show_turns(turns: "list[TurnView]", *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "turn_id": turn.id,
                    "message_id": turn.message_id,
                    "words": turn.words,
                    "said_by": None if turn.said_by is None else turn.said_by.value,
                    "ask_id": turn.ask_id,
                    "state": turn.state.value,
                    "attempt": turn.attempt,
                    "created_at": utc(turn.created_at),
                    "begun_at": utc(turn.begun_at),
                    "ended_at": utc(turn.ended_at),
                    "answer": turn.answer,
                    "left_out": turn.left_out,
                    "failure": None if turn.failure is None else turn.failure.document,
                }
                for turn in turns
            ]
        )
        return
    for turn in turns:
        about = f"message {turn.message_id}" if turn.message_id else _speaker(turn)
        print_heading(f"{local(turn.created_at)}  {about}  ({turn.state.value})")
        if turn.words is not None:
            print_quoted(turn.words)
        if turn.answer:
            click.echo("  The agent:")
            print_quoted(turn.answer)
        if turn.left_out:
            click.echo(f"  {turn.left_out:,} more bytes of it were not kept.")
        if turn.failure is not None:
            print_failure(turn.failure, "The agent")


def _speaker(turn: "TurnView") -> str:
    assert turn.said_by is not None
    named = {"owner": "you", "ask": f"your answer to ask {turn.ask_id}", "muster": "muster"}
    return named[turn.said_by.value]
