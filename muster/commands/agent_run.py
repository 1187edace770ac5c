"""`muster agent run`: connect an agent to muster's gateway and answer its turns."""

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.commands.exits import Exit
from muster.commands.tokens import AGENT, DEFAULT_URL, bad_setting, read_token
from muster.errors import Conflict, MusterError, Refused, Unauthorized

if TYPE_CHECKING:
    from muster.clients.agent.backend import Backend


@click.command("run")
@click.option("--backend", type=click.Choice(["script"]), required=True, help="Who answers.")
@click.option("--script", type=click.Path(path_type=Path), help="The rules of backend script.")
@click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}].")
@click.option("--token-file", type=click.Path(path_type=Path), help="Holds the agent's token.")
@click.option("--json", "as_json", is_flag=True, help="Print an event a line on stdout.")
def run(
    backend: str, script: Path | None, url: str | None, token_file: Path | None, *, as_json: bool
) -> int:
    """Run an agent: take its turns from muster, one at a time, and answer them.

    The token is read from --token-file, MUSTER_AGENT_TOKEN or MUSTER_AGENT_TOKEN_FILE; it is never
    an argument, since arguments are seen by every user of the machine. Ends on SIGTERM or Ctrl-C;
    exits 5 when the token is refused and 7 when another runner took over.

    A script for --backend script is a TOML file of rules; the first that matches decides:

    \b
      [[rule]]
      match = { sender = "(?i)ada", subject = "(?i)lunch", text = "noon" }
      reply = "Thanks {sender_name}, noon works."

    \b
      [[rule]]
      nothing = true

    `match` holds regular expressions for sender, subject and text, and true or false for no_reply
    and verified; without it a rule matches everything. Beside reply and nothing a rule may say
    fail = "why" or busy = true.
    """  # noqa: D301 - click's mark for lines to leave as they are
    if script is None:
        raise click.UsageError(f"--backend {backend} needs --script FILE")

    # Here and below: what is heavy is imported only once it is needed.
    import trio

    from muster.clients.agent.backend import without_muster
    from muster.clients.agent.dial import socket_url
    from muster.clients.agent.gateway import Gateway
    from muster.clients.stopping import until_stopped

    address = url or os.environ.get("MUSTER_URL") or DEFAULT_URL
    try:
        socket_url(address)
    except ValueError as error:
        raise bad_setting(str(error), "url") from error
    gateway = Gateway(
        url=address,
        token=read_token(AGENT, token_file, os.environ),
        backend=_load(script),
        report=functools.partial(_report, as_json=as_json),
    )
    # From here on nothing that a backend might start finds a setting or a token of muster's.
    kept = without_muster(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    closed = trio.run(until_stopped, gateway.run)
    if closed is not None:
        raise _turned_away(closed.code)
    return Exit.OK


def _load(script: Path) -> "Backend":
    from muster.clients.agent import script as scripted

    try:
        return scripted.load(script)
    except scripted.ScriptError as error:
        raise bad_setting(str(error), "script") from error


def _turned_away(code: int) -> MusterError:
    from muster.clients.agent.frames import Close

    match code:
        case Close.BAD_TOKEN:
            return Unauthorized("muster refuses the token: it is unknown or was revoked.")
        case Close.SUPERSEDED:
            return Conflict("Another runner of this agent took over; this one ends.")
        case _:
            return Refused("muster does not let this agent in.")


def _report(event: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"event": event, **facts}))
        return
    told = " ".join(f"{name}={json.dumps(value)}" for name, value in facts.items())
    click.echo(f"{event} {told}", err=True)
