"""What the manual, the README and the SDK's docstrings show: their blocks of code, and commands.

A block of the manual says its language; elsewhere what ends in `trio.run(…)` is a whole program.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import attrs
import click
from markdown_it import MarkdownIt

import muster
from muster.clients import plugin
from muster.commands.line import cli
from web.pages.manual_pages import ORDER

TOP = Path(muster.__file__).parent.parent
HERE = "http://localhost:8420"  # where the snippets take muster to be


@attrs.frozen
class Snippet:
    """A block of code and where it stands."""

    place: str
    language: str
    text: str


def of_manual() -> list[Snippet]:
    """Every block of the manual, in its language; an unnamed one has none."""
    folder = resources.files("web.pages").joinpath("manual")
    return [
        Snippet(f"{name}.md", language, text)
        for name in ORDER
        for language, text in _blocks(folder.joinpath(f"{name}.md").read_text(encoding="utf-8"))
    ]


def whole_programs() -> list[Snippet]:
    """The programs of the README and of the docstrings of the SDK."""
    texts = {"README.md": (TOP / "README.md").read_text(encoding="utf-8")}
    for path in sorted(Path(plugin.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{path.name}: {getattr(node, 'name', 'the module')}"
                texts[place] = ast.get_docstring(node) or ""
    return [
        Snippet(place, "python", text)
        for place, written in texts.items()
        for _, text in _blocks(written)
        if re.search(r"\bimport \w|\bawait |\basync with ", text)
    ]


def _blocks(written: str) -> Iterator[tuple[str, str]]:
    for token in MarkdownIt("commonmark").parse(written):
        if token.type in ("fence", "code_block"):
            yield token.info.strip(), token.content


def muster_commands(text: str) -> list[list[str]]:
    """The arguments of each `muster` in some lines for a shell, without what the shell takes."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        command = line.split(" #")[0].strip().removeprefix("(umask 077; ")
        command = re.sub(r"^(MUSTER_\w+=\S+ )+", "", command)
        if command.startswith("muster "):
            found.append(shlex.split(re.split(r" > | < | \| ", command.rstrip(")"))[0])[1:])
    return found


def parse(arguments: list[str]) -> click.Command:
    """Let the command line read the arguments and do nothing; raises what it refuses them with."""
    command: click.Command = cli
    context: click.Context | None = None
    rest = arguments
    while isinstance(command, click.Group):
        context = command.make_context("muster", list(rest), parent=context)
        given = [*context._protected_args, *context.args]
        if not given and command.invoke_without_command:
            return command
        name, found, rest = command.resolve_command(context, given)
        assert found is not None, name
        command = found
    command.make_context(command.name, list(rest), parent=context)
    return command
