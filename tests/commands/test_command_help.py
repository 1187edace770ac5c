"""Help is quick, and good enough for a newcomer."""

import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from muster.commands.line import cli
from tests.support.program import bare_program

HEAVY = ("argon2", "httpx2", "hypercorn", "mcp", "msgspec", "psycopg", "quart", "rich", "trio")
CPU_SECONDS_MAX = 0.3

CHECK = """
import sys
from muster.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        (),
        ("--version",),
        ("drafts", "list", "--help"),
        ("messages", "show", "--help"),
        ("user", "add", "--help"),
        ("plugins", "--help"),
        ("agent", "add", "--help"),
        ("audit", "--help"),
        ("config", "show", "--help"),
        ("db", "migrate", "--help"),
        ("status", "--help"),
    ],
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """Help loads no library that takes long to load."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(heavy=HEAVY), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == "[]\n"
    assert done.stdout


@pytest.mark.parametrize("arguments", [("--help",), ("drafts", "list", "--help")])
def test_help_is_quick(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Help takes less than 0.3 s of processor time."""
    program = bare_program(tmp_path)

    def measure() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert program.run(*arguments).code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(measure() for _ in range(3)) < CPU_SECONDS_MAX


def test_muster_alone_shows_help(tmp_path: Path) -> None:
    """Without a subcommand the program explains itself and names what there is."""
    ended = bare_program(tmp_path).run()
    assert ended.code == 0
    for name in ("demo", "serve", "user", "plugin", "agent", "messages", "drafts", "config"):
        assert f"\n  {name} " in ended.out
    assert list(tmp_path.iterdir()) == []


def each_command(command: click.Command, path: str = "muster") -> list[tuple[str, click.Command]]:
    """A command and all below it."""
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += each_command(below, f"{path} {name}")
    return found


def test_every_command_and_option_explains_itself() -> None:
    """Each command has a help text and each of its options too."""
    silent = []
    for path, command in each_command(cli):
        if not command.help:
            silent.append(path)
        silent += [
            f"{path} {option.opts[0]}"
            for option in command.params
            if isinstance(option, click.Option) and not option.help
        ]
    assert not silent


def test_no_help_shows_a_mark_of_its_own_writing() -> None:
    """What marks lines to be left as they are is taken away by click, and not printed."""
    for path, command in each_command(cli):
        with click.Context(command, info_name=path) as context:
            assert "\\b" not in command.get_help(context), path
