"""The command line: its subcommands, each imported only when it is used, and how it ends."""

import importlib
import os
import sys
from collections.abc import Sequence

import attrs
import click

from muster.commands.exits import Exit, exit_of, lone_error, say, wants_json
from muster.errors import MusterError


@attrs.frozen
class _Listed:
    """A subcommand that is known before it is imported."""

    target: str
    sentence: str


# In the order in which a newcomer meets them.
_COMMANDS: dict[str, _Listed] = {
    "demo": _Listed("muster.commands.demo:demo", "See the whole loop on a few sample mails."),
    "serve": _Listed("muster.commands.serve:serve", "Run the server."),
    "status": _Listed("muster.commands.status:status", "Tell whether all is well."),
    "user": _Listed("muster.commands.user:user", "Add, list, disable and enable accounts."),
    "plugin": _Listed("muster.commands.plugin:plugin", "Add, list, write and test plugins."),
    "agent": _Listed("muster.commands.agent:agent", "Add, list, retire and run agents."),
    "token": _Listed("muster.commands.token:token", "Add, list and revoke the tokens of people."),
    "messages": _Listed("muster.commands.messages:messages", "Look at what came in."),
    "drafts": _Listed("muster.commands.drafts:drafts", "Read and decide the replies that wait."),
    "tasks": _Listed("muster.commands.tasks:tasks", "Look at what is to be done."),
    "asks": _Listed("muster.commands.asks:asks", "Read and answer what is asked of you."),
    "chief": _Listed("muster.commands.chief:chief", "See what your chief is at; write to it."),
    "route": _Listed("muster.commands.route:route", "Answer, and look at, what sessions got."),
    "audit": _Listed("muster.commands.audit:audit", "Read who did what, newest first."),
    "mirror": _Listed("muster.commands.mirror:mirror", "Mirror this machine's tmux windows."),
    "mail": _Listed("muster.commands.mail:mail", "Run the mail plugin, or check it."),
    "config": _Listed("muster.commands.config:config", "Show and check the settings."),
    "db": _Listed("muster.commands.db:db", "Look after the database."),
}
_ALIASES = {"plugins": "plugin"}


class _Commands(click.Group):
    """Imports a subcommand only when it is used, so that help stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        listed = _COMMANDS.get(_ALIASES.get(cmd_name, cmd_name))
        if listed is None:
            return None
        module, _, attribute = listed.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.sentence) for name, listed in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Settings are MUSTER_* environment variables: `muster config show` explains them.",
)
@click.version_option(package_name="muster-server", prog_name="muster")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A desk between you, your AI agents and the systems that write to you.

    Plugins bring messages in, your chief agent drafts the replies, you approve each one, and it
    leaves once. Begin with `muster demo`, which needs no set-up.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code that `muster.commands.exits` says of its end."""
    # A terminal that cannot show a letter gets its number, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return _run(list(arguments))


def _run(arguments: list[str]) -> int:
    as_json = wants_json(arguments)
    try:
        outcome = cli.main(arguments, prog_name="muster", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        return _say_usage(error, as_json=as_json)
    except click.ClickException as error:
        say(MusterError(error.format_message()), as_json=as_json)
        return error.exit_code
    except MusterError as error:
        return _say(error, as_json=as_json)
    except BaseExceptionGroup as group:
        lone = lone_error(group)
        if lone is None:
            raise
        return _say(lone, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) left. Closing stdout at exit must not complain about it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    return outcome if isinstance(outcome, int) else Exit.OK


def _say(error: MusterError, *, as_json: bool) -> Exit:
    say(error, as_json=as_json)
    return exit_of(error)


def _say_usage(error: click.UsageError, *, as_json: bool) -> int:
    if as_json:
        say(MusterError(error.format_message(), code="usage"), as_json=True)
    else:
        error.show()
    return Exit.USAGE
