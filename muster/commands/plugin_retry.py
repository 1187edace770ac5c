"""`muster plugin retry`: an unconfirmed message is handed to the chief again."""

import click

from muster.commands.options import json_option, owner_option
from muster.commands.output import print_json
from muster.commands.session import in_store


@click.command()
@click.argument("message_id", metavar="MESSAGE", type=click.IntRange(1, 2**63 - 1))
@owner_option
@json_option
def retry(message_id: int, owner: str | None, *, as_json: bool) -> None:
    """Hand the unconfirmed MESSAGE, an id, to the chief again.

    `muster messages list --state unconfirmed` lists them. The chief may have acted on it already,
    and is told so. What it drafted waits for your approval like any reply.
    """
    from muster.chief.operations.retry import RetryMessage, retry_message

    command = RetryMessage(message_id=message_id)
    message = in_store(lambda store: store.run_as(owner, retry_message, command))
    if as_json:
        print_json(
            {
                "message_id": message.id,
                "state": message.state.value,
                "retries": message.retries,
                "attempts": message.attempts,
            }
        )
        return
    click.echo(f"Message {message.id} waits for your chief again.", err=True)
