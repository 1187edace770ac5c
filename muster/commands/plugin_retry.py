"""`muster plugin retry`: an unconfirmed message is handed to the chief again."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from muster.commands.options import Id, json_option, owner_option
from muster.commands.output import print_json
from muster.commands.session import in_store
from muster.commands.tokens import DEFAULT_URL


@click.command()
@click.argument("message_id", metavar="MESSAGE", type=Id("message"))
@owner_option
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Ask a server by its API, with the personal or hook token in this file.",
)
@click.option("--url", help=f"Where that server is [MUSTER_URL, else {DEFAULT_URL}].")
@json_option
def retry(
    message_id: int, owner: str | None, token_file: Path | None, url: str | None, *, as_json: bool
) -> None:
    """Hand the unconfirmed MESSAGE, an id, to the chief again.

    `muster messages list --state unconfirmed` lists them. The chief may have acted on it already,
    and is told so. What it drafted waits for your approval like any reply. With --token-file this
    works from any machine: it is POST /api/plugins/messages/MESSAGE/retry.
    """
    if token_file is None:
        if url is not None:
            raise click.UsageError("--url goes with --token-file.")
        told = _here(message_id, owner)
    else:
        if owner is not None:
            raise click.UsageError("The token says whose: leave --owner away.")
        address = url or os.environ.get("MUSTER_URL") or DEFAULT_URL
        told = _there(message_id, address, token_file)
    if as_json:
        print_json(told)
        return
    click.echo(f"Message {message_id} waits for your chief again.", err=True)


def _here(message_id: int, owner: str | None) -> Mapping[str, object]:
    from muster.chief.operations.retry import RetryMessage, retry_message

    command = RetryMessage(message_id=message_id)
    message = in_store(lambda store: store.run_as(owner, retry_message, command))
    return {"message_id": message.id, "state": message.state.value, "retries": message.retries}


def _there(message_id: int, url: str, token_file: Path) -> Mapping[str, object]:
    from muster.commands.over_http import post, read_api_token

    path = f"/api/plugins/messages/{message_id}/retry"
    told = post(url, path, token=read_api_token(token_file))
    return {name: told.get(name) for name in ("message_id", "state", "retries")}
