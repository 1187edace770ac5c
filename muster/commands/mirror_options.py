"""The options of `muster mirror`, which a unit that runs it takes as well: given, then checked."""

import os
import re
import shlex
from pathlib import Path

import attrs
import click

from muster.commands.tokens import DEFAULT_URL, bad_setting

SESSION_NAME = "muster-resume"
CLAUDE = "claude"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@attrs.frozen(kw_only=True)
class MirrorOptions:
    """The options as they were given."""

    url: str | None
    token_file: Path | None
    interactive: bool
    resume_spawn: bool
    resume_session: str | None
    resume_claude: str | None
    tmux_socket: str | None


@attrs.frozen(kw_only=True)
class MirrorSettings:
    """What the options mean; `resume_claude` are the words of a program."""

    url: str
    interactive: bool
    resumes: bool
    resume_session: str
    resume_claude: tuple[str, ...]
    tmux_socket: str | None


def check(options: MirrorOptions) -> MirrorSettings:
    """What the options mean; UsageError for what can't be meant, Invalid for a bad address."""
    if not options.resume_spawn and (options.resume_session or options.resume_claude):
        raise click.UsageError("--resume-session and --resume-claude go with --resume-spawn")
    if options.resume_spawn and not options.interactive:
        told = "--resume-spawn does nothing without --interactive: what is resumed is typed into."
        click.echo(f"muster: {told}", err=True)
    session = SESSION_NAME if options.resume_session is None else options.resume_session
    if not _NAME.fullmatch(session):
        raise click.UsageError("--resume-session takes letters, digits, hyphens and underscores")
    if options.tmux_socket == "":
        raise click.UsageError("--tmux-socket needs a name or a path")
    return MirrorSettings(
        url=_address(options.url),
        interactive=options.interactive,
        resumes=options.resume_spawn and options.interactive,
        resume_session=session,
        resume_claude=_words(CLAUDE if options.resume_claude is None else options.resume_claude),
        tmux_socket=options.tmux_socket,
    )


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise click.UsageError(f"--resume-claude is no command: {error}") from error
    if not words:
        raise click.UsageError("--resume-claude needs a program")
    return words


def _address(given: str | None) -> str:
    from muster.clients.dial import socket_url
    from muster.clients.mirror.frames import PATH

    address = given or os.environ.get("MUSTER_URL") or DEFAULT_URL
    try:
        socket_url(address, PATH)
    except ValueError as error:
        raise bad_setting(str(error), "url") from error
    return address
