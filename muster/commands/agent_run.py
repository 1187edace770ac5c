"""`muster agent run`: connect an agent to muster's gateway and answer its turns."""

import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.commands.agent_backends import (
    TAKEN,
    BackendOptions,
    Door,
    OpenBackend,
    check_options,
    prepare,
)
from muster.commands.exits import Exit, as_sentence
from muster.commands.tokens import AGENT, DEFAULT_URL, bad_setting, name_holder, read_token
from muster.errors import Conflict, MusterError, Refused, Unauthorized

if TYPE_CHECKING:
    from muster.clients.agent.backend import Backend
    from muster.clients.dial import Closed


@click.command("run")
@click.option("--backend", type=click.Choice(list(TAKEN)), required=True, help="Who answers.")
@click.option("--script", type=click.Path(path_type=Path), help="The rules of backend script.")
@click.option("--model", metavar="NAME", help="Which model; claude-code has a choice of its own.")
@click.option("--base-url", metavar="URL", help="Where the model is, if not at its maker's.")
@click.option(
    "--api-key-file",
    type=click.Path(path_type=Path),
    help="Holds the model's key [OPENAI_API_KEY or ANTHROPIC_API_KEY].",
)
@click.option(
    "--max-output-tokens", type=click.IntRange(1, 1_000_000), help="Bounds each answer of a model."
)
@click.option("--claude", metavar="PROGRAM", help="Claude Code [claude, as found on PATH].")
@click.option(
    "--allow-tools",
    metavar="NAMES",
    help="Tools of Claude Code's own that it may use, such as Read,Grep. None, unless named: a"
    " message could talk it into using them.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Keeps the conversations [a folder under XDG_STATE_HOME for the server and the token's"
    " file; without a file, for the token].",
)
@click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}].")
@click.option("--token-file", type=click.Path(path_type=Path), help="Holds the agent's token.")
@click.option("--json", "as_json", is_flag=True, help="Print an event a line on stdout.")
def run(
    backend: str, url: str | None, token_file: Path | None, *, as_json: bool, **of_backends: object
) -> int:
    """Run an agent: take its turns from muster, one at a time, and answer them.

    The token is read from --token-file, MUSTER_AGENT_TOKEN or MUSTER_AGENT_TOKEN_FILE; it is never
    an argument, since arguments are seen by every user of the machine. Ends on SIGTERM or Ctrl-C;
    exits 5 when the token is refused and 7 when another runner took over.

    \b
    Who answers, and what that one takes:
      script       rules in a file: --script
      openai       a chat server with OpenAI's interface: --model, --base-url
      anthropic    Anthropic's interface: --model
      claude-code  Claude Code, signed in by itself: --claude, --model, --allow-tools

    A model or Claude Code works in an empty folder, without a setting of muster's, and with
    muster's tools alone.

    A script is a TOML file of rules; the first that matches decides:

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
    options = BackendOptions(**of_backends)  # type: ignore[arg-type]  # click's types are these
    check_options(backend, options)
    _run(backend, options, url=url, token_file=token_file, as_json=as_json)
    return Exit.OK


def _run(
    backend: str,
    options: BackendOptions,
    *,
    url: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    # Here and below: what is heavy is imported only once it is needed.
    import trio

    from muster.clients.agent.backend import without_muster
    from muster.clients.agent.gateway import PATH
    from muster.clients.dial import socket_url
    from muster.clients.stopping import until_stopped

    address = url or os.environ.get("MUSTER_URL") or DEFAULT_URL
    try:
        socket_url(address, PATH)
    except ValueError as error:
        raise bad_setting(str(error), "url") from error
    token = read_token(AGENT, token_file, os.environ)
    # From here on nothing that a backend might start finds a setting or a token of muster's.
    kept = without_muster(os.environ)
    holder = name_holder(AGENT, token_file, os.environ)
    opened = prepare(backend, options, Door(url=address, token=token, holder=holder, environ=kept))
    os.environ.clear()
    os.environ.update(kept)
    report = functools.partial(_report, as_json=as_json)
    with _empty_folder():
        serve = functools.partial(_serve, opened, url=address, token=token, report=report)
        closed = trio.run(until_stopped, serve)
    if isinstance(closed, Exception):
        raise _cannot_begin(closed) from closed
    if closed is not None:
        raise _turned_away(closed.code)


async def _serve(
    opened: OpenBackend, *, url: str, token: str, report: Callable[..., None]
) -> "Closed | Exception":
    """Serve turns with the backend; what kept it from being opened is returned."""
    from muster.clients.agent.gateway import Gateway
    from muster.clients.state_folder import StateFolderBusyError

    async with AsyncExitStack() as stack:
        try:
            backend: Backend = await stack.enter_async_context(opened())
        except (StateFolderBusyError, OSError) as error:
            return error
        return await Gateway(url=url, token=token, backend=backend, report=report).run()


@contextmanager
def _empty_folder() -> Iterator[None]:
    """Work in a folder where a backend finds nothing, and where nothing can be put.

    It is removed as soon as this process stands in it: one that is killed leaves no folder behind.
    """
    before = Path.cwd()
    folder = Path(tempfile.mkdtemp(prefix="muster-agent-"))
    os.chdir(folder)
    try:
        folder.rmdir()
        yield
    finally:
        os.chdir(before)


def _cannot_begin(error: Exception) -> MusterError:
    from muster.clients.state_folder import StateFolderBusyError

    if isinstance(error, StateFolderBusyError):
        return Conflict(as_sentence(str(error)))
    return bad_setting(f"the state folder cannot be used: {error}", "state")


def _turned_away(code: int) -> MusterError:
    from muster.clients.dial import Close

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
