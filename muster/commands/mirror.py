"""`muster mirror`: show this machine's tmux windows to muster, and type what it sends."""

import functools
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.commands import mirror_parts
from muster.commands.exits import Exit, as_sentence
from muster.commands.mirror_options import CLAUDE, SESSION_NAME, MirrorOptions, check
from muster.commands.tokens import DEFAULT_URL, MIRROR, bad_setting, read_token
from muster.errors import Conflict, MusterError, Refused, Unauthorized

if TYPE_CHECKING:
    from muster.clients.dial import Closed
    from muster.clients.mirror.host import Host


@click.group("mirror", invoke_without_command=True)
@click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}].")
@click.option("--token-file", type=click.Path(path_type=Path), help="Holds this machine's token.")
@click.option("--interactive", is_flag=True, help="Type what muster sends into idle sessions.")
@click.option(
    "--resume-spawn",
    is_flag=True,
    help="Start ended sessions anew when muster asks; goes with --interactive.",
)
@click.option(
    "--resume-session", metavar="NAME", help=f"In this tmux session they start [{SESSION_NAME}]."
)
@click.option("--resume-claude", metavar="CMD", help=f"What starts them [{CLAUDE}].")
@click.option(
    "--tmux-socket", metavar="NAME", help="The tmux server: as in tmux -L, a path as in tmux -S."
)
@click.option("--json", "as_json", is_flag=True, help="Print an event a line on stdout.")
@click.pass_context
def mirror(ctx: click.Context, /, *, as_json: bool, **given: Any) -> int | None:
    """Mirror this machine: its tmux windows with Claude Code appear in muster.

    What a session does is told by Claude Code's own hooks: install them once with `muster mirror
    hooks install`. With --interactive, text that was sent to a session is typed into it once it is
    idle, each text once. Comes back for ever when muster or tmux is away.

    The token is read from --token-file, MUSTER_MIRROR_TOKEN or MUSTER_MIRROR_TOKEN_FILE; it is
    never an argument, since arguments are seen by every user of the machine. Ends on SIGTERM or
    Ctrl-C; exits 4 when this machine is not let in, 5 when the token is refused, 7 when another
    program mirrors in its place.
    """
    if ctx.invoked_subcommand is not None:
        if as_json or any(given.values()):
            raise click.UsageError(f"write the options after {ctx.invoked_subcommand}")
        return None
    _run(MirrorOptions(**given), as_json=as_json)
    return Exit.OK


for _part in (mirror_parts.hooks, mirror_parts.hook, mirror_parts.mcp, mirror_parts.unit):
    mirror.add_command(_part)


def _run(options: MirrorOptions, *, as_json: bool) -> None:
    # Here and below: what is heavy is imported only once it is needed.
    import trio

    from muster.clients.mirror.host import HostFailedError, first_of
    from muster.clients.state_folder import StateFolderBusyError
    from muster.clients.stopping import until_stopped

    host = _host(options, as_json=as_json)
    closed: Closed | None = None
    trouble: MusterError | None = None
    # Whatever tmux is made to start finds no setting and no token of muster's.
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        del os.environ[name]
    try:
        closed = trio.run(until_stopped, host.run)
    except* StateFolderBusyError as errors:
        trouble = Conflict(as_sentence(str(first_of(errors))))
    except* HostFailedError as errors:
        trouble = MusterError(as_sentence(str(first_of(errors))))
    except* OSError as errors:
        trouble = bad_setting(f"the state folder cannot be used: {first_of(errors)}", None)
    if trouble is not None:
        raise trouble
    if closed is not None:
        raise _turned_away(closed)


def _host(options: MirrorOptions, *, as_json: bool) -> "Host":
    from muster.clients.mirror.hooks import open_sessions
    from muster.clients.mirror.host import Host
    from muster.clients.mirror.resume import Resumer
    from muster.clients.mirror.spool import spool_folder
    from muster.clients.mirror.tmux import Tmux

    settings = check(options)
    token = read_token(MIRROR, options.token_file, os.environ)
    name = socket.gethostname()
    folder = _state_folder(name, settings.tmux_socket)
    tmux = Tmux(socket=settings.tmux_socket)
    spool, home = Path(spool_folder(os.environ)), Path.home()
    resumer = Resumer(
        tmux=tmux,
        spool=spool,
        home=home,
        folder=folder,
        tmux_session=settings.resume_session,
        claude=settings.resume_claude,
    )
    return Host(
        url=settings.url,
        token=token,
        name=name,
        folder=folder,
        tmux=tmux,
        interactive=settings.interactive,
        open_sessions=lambda tell: open_sessions(spool, home=home, tell=tell),
        resumes=resumer if settings.resumes else None,
        lines=functools.partial(_tell, as_json=as_json),
    )


def _state_folder(name: str, tmux_socket: str | None) -> Path:
    """One folder for each tmux server of this machine, since each may have a program of its own."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    of = name if tmux_socket is None else f"{name}@{tmux_socket.replace('/', '-')}"
    return Path(state) / "muster" / "mirror" / of[-200:].lstrip(".")


def _turned_away(closed: "Closed") -> MusterError:
    from muster.clients.dial import Close

    match closed.code:
        case Close.BAD_TOKEN:
            return Unauthorized("muster refuses the token: it is unknown or was revoked.")
        case Close.SUPERSEDED:
            return Conflict("Another program mirrors with this token; this one ends.")
        case _:
            return Refused("muster does not let this machine in.")


def _tell(event: str, *, as_json: bool, **facts: object) -> None:
    if as_json:
        click.echo(json.dumps({"event": event, **facts}))
        return
    told = " ".join(f"{name}={json.dumps(value)}" for name, value in facts.items())
    click.echo(f"{event} {told}", err=True)
