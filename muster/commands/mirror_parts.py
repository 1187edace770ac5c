"""What belongs to `muster mirror` besides the program itself: hooks, a session's tools, a unit."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from muster.commands.exits import Exit
from muster.commands.mirror_options import MirrorOptions, check
from muster.commands.tokens import DEFAULT_URL, MIRROR, read_token
from muster.errors import MusterError, Refused

if TYPE_CHECKING:
    from muster.clients.mirror.hook_settings import Version
    from muster.clients.mirror.mcp import Door

VERSION_SECONDS = 15.0
ADD_MCP = (
    "claude mcp add --scope user muster -- muster mirror mcp --url URL --token-file mirror.token"
)


@click.group("hooks")
def hooks() -> None:
    """Have Claude Code tell muster what its sessions do."""


_SETTINGS = click.option(
    "--settings",
    type=click.Path(path_type=Path),
    help="The file [settings.json in CLAUDE_CONFIG_DIR, else in ~/.claude].",
)


@hooks.command("install")
@click.option("--print", "prints", is_flag=True, help="Print the hooks and write nothing.")
@_SETTINGS
@click.option(
    "--claude", default="claude", show_default=True, metavar="CMD", help="Claude Code's program."
)
def install(*, prints: bool, settings: Path | None, claude: str) -> None:
    """Write muster's hooks into Claude Code's settings; what is there stays.

    Sessions that run take them up by themselves; what one does is known from its next hook on. A
    file that is not settings is left as it is. Which hooks there are depends on Claude Code's
    version: install them again once it was updated.
    """
    import json

    from muster.clients.mirror.hook_settings import events_of, with_hooks

    events = events_of(_version_of(claude))
    if prints:
        click.echo(json.dumps(with_hooks({}, _this_program(), events), indent=2))
        return
    _change(settings, _this_program(), events)


@hooks.command("uninstall")
@_SETTINGS
def uninstall(*, settings: Path | None) -> None:
    """Take muster's hooks out of Claude Code's settings again; what else is there stays."""
    _change(settings, None, ())


def _change(settings: Path | None, program: str | None, events: Sequence[str]) -> None:
    from muster.clients.mirror.hook_settings import SettingsError, change, settings_path

    path = settings or settings_path(os.environ)
    try:
        changed = change(path, program, events)
    except SettingsError as error:
        raise Refused(str(error)) from error
    done = "are taken out of" if program is None else "are in"
    click.echo(f"muster's hooks {done} {path}{'' if changed else ' already'}.", err=True)


# What is wrong with its arguments it says itself.
@click.command("hook", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("event", required=False)
@click.pass_context
def hook(ctx: click.Context, /, *, event: str | None) -> int:
    """What Claude Code calls at each EVENT, with its JSON on stdin; says nothing, ends well.

    Wrong arguments exit 1 and not 2 as elsewhere: 2 would stop the prompt or the tool.
    """
    if event is not None and not event.startswith("-") and not ctx.args:
        from muster.commands.mirror_hook import answer

        answer(event)
    click.echo("muster: It is called as `muster mirror hook EVENT`.", err=True)
    return Exit.FAILED


@click.command("mcp", epilog=f"Told to Claude Code by: {ADD_MCP}")
@click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}].")
@click.option("--token-file", type=click.Path(path_type=Path), help="Holds this machine's token.")
def mcp(*, url: str | None, token_file: Path | None) -> NoReturn:
    """Give a session muster's tools: an MCP server on stdin and stdout.

    Claude Code starts it for each session. Without a pane of tmux, a token or a server its one tool
    says what is missing.
    """
    from muster.clients.mirror.mcp import McpServer

    door = _door(url, token_file)
    with open(sys.stdin.fileno(), "rb", closefd=False) as lines:
        McpServer(door, _say).serve(lines)
    # Requests that are in hand have nobody to answer any more.
    os._exit(0)


@click.command("unit")
@click.option("--install", "installs", is_flag=True, help="Write it where systemd looks.")
@click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}].")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    required=True,
    help="Holds this machine's token: a unit has no other way to it.",
)
@click.option("--interactive", is_flag=True, help="As for muster mirror.")
@click.option("--resume-spawn", is_flag=True, help="As for muster mirror.")
@click.option("--resume-session", metavar="NAME", help="As for muster mirror.")
@click.option("--resume-claude", metavar="CMD", help="As for muster mirror.")
@click.option("--tmux-socket", metavar="NAME", help="As for muster mirror.")
def unit(*, installs: bool, **given: Any) -> None:
    """Print a systemd unit that runs `muster mirror` with these options, for this user."""
    from muster.clients.mirror.unit import unit_path, unit_text

    check(MirrorOptions(**given))
    command = [*shlex.split(_this_program()), "mirror", *_options(given)]
    try:
        text = unit_text(command, starts_sessions=bool(given["resume_spawn"]))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not installs:
        click.echo(text, nl=False)
        return
    path = unit_path(os.environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path} can't be written: {error.strerror}") from error
    click.echo(f"Written to {path}. Now:", err=True)
    for line in ("daemon-reload", f"enable --now {path.stem}"):
        click.echo(f"    systemctl --user {line}", err=True)
    click.echo("    loginctl enable-linger    # to mirror while you are not logged in", err=True)


def _version_of(claude: str) -> "Version | None":
    import subprocess

    from muster.clients.mirror.hook_settings import read_version

    said = ""
    try:
        said = subprocess.run(  # noqa: S603 - the program that the person named
            [*shlex.split(claude), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        click.echo(f"muster: {claude} does not tell its version: {error}", err=True)
    version = read_version(said)
    if version is None:
        told = "Claude Code's version is unknown: only hooks that every version knows are used."
        click.echo(f"muster: {told}", err=True)
    return version


def _options(given: dict[str, Any]) -> list[str]:
    """Options as they are typed; paths whole, since a unit runs elsewhere."""
    options: list[str] = []
    given = {**given, "url": given["url"] or os.environ.get("MUSTER_URL")}
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            options.append(option)
        elif value:
            options += [option, str(value.absolute()) if isinstance(value, Path) else value]
    return options


def _this_program() -> str:
    """This muster for a shell, found from whatever folder and with whatever PATH."""
    called = Path(sys.argv[0])
    if called.stem == "muster" and called.is_file():
        return shlex.quote(str(called.absolute()))
    return f"{shlex.quote(sys.executable)} -m muster"


def _door(url: str | None, token_file: Path | None) -> "Door":
    from muster.clients.mirror.mcp import Door
    from muster.clients.mirror.spool import PANE
    from muster.clients.urls import read_http_url

    pane = os.environ.get("TMUX_PANE", "")
    address = read_http_url(url or os.environ.get("MUSTER_URL") or DEFAULT_URL)
    token, trouble = None, None
    if not PANE.fullmatch(pane):
        trouble = "This session is in no pane of tmux, so muster can't tell which one it is."
    elif address is None:
        trouble = f"The address of muster is none like {DEFAULT_URL}: set --url or MUSTER_URL."
    else:
        try:
            token = read_token(MIRROR, token_file, os.environ)
        except MusterError as error:
            trouble = f"This host's token is missing. {error.sentence}"
    return Door(address, token=token, pane=pane, trouble=trouble)


def _say(line: bytes) -> None:
    while line:
        line = line[os.write(sys.stdout.fileno(), line) :]
