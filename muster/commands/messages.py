"""`muster messages`: what came in, and how far each got."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import attrs
import click

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
from muster.errors import NotFound
from muster.failure import Failure, tell_failure
from muster.messages.rules import Message, State
from muster.token_use import TokenUse

if TYPE_CHECKING:
    from muster.messages.operations import ListMessages
    from muster.pg.database import Transaction

UNVERIFIED = "UNVERIFIED: the plugin could not prove this sender; treat the name as a claim"


@attrs.frozen(kw_only=True)
class Listing:
    """Messages, the names of the plugins that brought them, and the time of the look."""

    messages: list[Message]
    plugins: Mapping[int, str]
    now: datetime
    # Of the one message that is shown whole, and of its newest turn.
    usage: TokenUse | None = None
    failure: Failure | None = None


@click.group()
def messages() -> None:
    """Look at what came in.

    A message is queued until the chief can take it, delivering while its turn runs, delivered
    after it. It is unconfirmed when that turn was cut off or failed, so that nobody can know what
    the chief did about it: such a one waits for you and is never handed over again by itself.
    """


@messages.command("list")
@owner_option
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only these.")
@click.option("--plugin", metavar="NAME", help="Only those that this plugin brought.")
@limit_option
@json_option
def list_(
    owner: str | None, state: str | None, plugin: str | None, limit: int, *, as_json: bool
) -> None:
    """List messages, newest first.

    A narrow terminal has no room for Plugin, then for Subject, Age and Sender; --json tells all.
    """
    from muster.messages.operations import ListMessages

    command = ListMessages(state=State(state) if state else None, plugin=plugin, limit=limit)
    listing = in_store(lambda store: store.run_as(owner, _list, command))
    if as_json:
        print_json([document(message, listing.plugins) for message in listing.messages])
        return
    print_table(
        ("ID", "Age", "Plugin", "Sender", "Subject", "State"),
        [
            (
                str(message.id),
                age(message.created_at, listing.now),
                listing.plugins[message.plugin_id],
                listed_sender(message.sender, verified=message.sender_verified),
                shown(message.subject),
                _progress(message, listing.now),
            )
            for message in listing.messages
        ],
        empty="There is no such message." if state or plugin else "There is no message yet.",
        spare=("Plugin", "Subject", "Age", "Sender"),
    )


@messages.command()
@click.argument("message_id", metavar="ID", type=Id("message"))
@owner_option
@json_option
def show(message_id: int, owner: str | None, *, as_json: bool) -> None:
    """Show one message whole."""
    listing = in_store(lambda store: store.run_as(owner, _get, message_id))
    (message,) = listing.messages
    if as_json:
        usage = None if listing.usage is None else attrs.asdict(listing.usage)
        failure = None if listing.failure is None else listing.failure.document
        whole = {"body": message.body, "usage": usage, "failure": failure}
        print_json(document(message, listing.plugins) | whole)
        return
    plugin = listing.plugins[message.plugin_id]
    print_message(message, plugin, listing.now, usage=listing.usage)
    if listing.failure is not None:
        print_failure(listing.failure, "The chief")


def print_message(
    message: Message, plugin: str, now: datetime, *, usage: TokenUse | None = None
) -> None:
    """Print a message for a person, labelled as what it is: words of somebody outside."""
    print_heading(f"Message {message.id}: from outside, so do not trust what it says")
    sender = shown(message.sender)
    pairs = [
        ("From", sender if message.sender_verified else f"{sender} ({UNVERIFIED})"),
        ("Subject", shown(message.subject)),
        ("Plugin", shown(plugin)),
        ("Received", local(message.received_at)),
        ("Stored", local(message.created_at)),
        ("State", _progress(message, now)),
    ]
    if message.settle_reason is not None:
        pairs.append(("Needs nothing", shown(message.settle_reason)))
    if usage is not None:
        pairs.append(("Tokens", _tokens(usage)))
    if message.no_reply:
        pairs.append(("Reply", "not possible"))
    print_pairs(pairs)
    print_quoted(message.body)


def print_failure(failure: Failure, agent: str) -> None:
    """Print why a turn failed, and what the agent said of it, as the agent's words."""
    click.echo(f"  {tell_failure(failure, agent)}")
    if failure.error is not None:
        click.echo("  The agent, on why it failed:")
        print_quoted(failure.error)


async def _list(tx: "Transaction", command: "ListMessages") -> Listing:
    from muster.messages.operations import list_messages
    from muster.plugins.operations import knows_name, name_plugins

    if command.plugin is not None and not await knows_name(tx, command.plugin):
        raise NotFound(f"There is and was no plugin named {command.plugin}.")
    found = await list_messages(tx, command)
    names = await name_plugins(tx, (message.plugin_id for message in found))
    return Listing(messages=found, plugins=names, now=tx.now)


async def _get(tx: "Transaction", message_id: int) -> Listing:
    from muster.chief.operations.history import find_last_failure
    from muster.messages.operations import find_token_use, get_message
    from muster.plugins.operations import name_plugins

    message = await get_message(tx, message_id)
    names = await name_plugins(tx, [message.plugin_id])
    usage = await find_token_use(tx, message_id)
    failure = await find_last_failure(tx, message_id)
    return Listing(messages=[message], plugins=names, now=tx.now, usage=usage, failure=failure)


def listed_sender(sender: str | None, *, verified: bool) -> str:
    """The sender in a list; the mark stands in front, where a narrow terminal does not cut."""
    return shown(sender) if verified else f"UNVERIFIED {shown(sender)}"


def _tokens(usage: TokenUse) -> str:
    calls = "1 call" if usage.calls == 1 else f"{usage.calls:,} calls"
    if not (usage.input_tokens or usage.output_tokens):
        # Some servers count nothing, and no call takes nothing.
        return f"not told by the model's server, {calls}, {shown(usage.model)}"
    return (
        f"{usage.input_tokens:,} in ({usage.cached_input_tokens:,} cached),"
        f" {usage.output_tokens:,} out, {calls}, {shown(usage.model)}"
    )


def _progress(message: Message, now: datetime) -> str:
    if message.state is State.DELIVERING and message.delivering_at is not None:
        return f"delivering for {age(message.delivering_at, now)}"
    return message.state.value


def document(message: Message, plugins: Mapping[int, str]) -> dict[str, object]:
    """A message for programs, all but its body."""
    return {
        "message_id": message.id,
        "plugin": plugins[message.plugin_id],
        "plugin_id": message.plugin_id,
        "external_id": message.external_id,
        "sender": message.sender,
        "sender_verified": message.sender_verified,
        "subject": message.subject,
        "received_at": utc(message.received_at),
        "no_reply": message.no_reply,
        "thread": message.thread,
        "human_conversation": message.human_conversation,
        "state": message.state.value,
        "attempts": message.attempts,
        "agent_id": message.agent_id,
        "created_at": utc(message.created_at),
        "delivering_at": utc(message.delivering_at),
        "settled_at": utc(message.settled_at),
        "retries": message.retries,
        "settle_reason": message.settle_reason,
        "dispositioned_at": utc(message.dispositioned_at),
    }
