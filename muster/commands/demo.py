"""`muster demo`: the whole loop on a few mails, in a muster of its own."""

import functools
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.commands.exits import Exit, as_sentence
from muster.commands.next_step import to_type
from muster.commands.output import print_json, print_table, shown
from muster.errors import Invalid, MusterError

R = TypeVar("R")
_SENTENCE = "muster: "


@click.command("demo")
@click.option("--once", is_flag=True, help="Do the loop without a person, report, and end.")
@click.option("--json", "as_json", is_flag=True, help="With --once: report as one JSON document.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Use this folder and keep it.")
def demo(*, once: bool, as_json: bool, data_dir: Path | None) -> int:
    """See the whole loop on a few sample mails.

    Starts a muster of its own: an embedded database, the server, a chief that follows a script of
    rules, and the mail plugin. You approve what may leave. Nothing is sent anywhere: replies are
    written to a folder. All of it ends with the demo, and so does its folder without --data-dir.

    --once approves everything itself; it exits 0 only if each mail ended as its kind should.
    """
    if as_json and not once:
        raise click.UsageError("--json goes with --once.")

    from muster.clients.demo.program import play, play_once

    say = functools.partial(click.echo, err=once)
    with _folder(data_dir) as folder:
        if not once:
            kept = data_dir is not None
            _run(functools.partial(play, folder, os.environ, say, kept=kept, to_type=to_type))
            return Exit.OK
        told = _run(functools.partial(play_once, folder, os.environ, say), as_json=as_json)
    if told is None:
        return Exit.INTERRUPTED
    _print(told, as_json=as_json)
    return Exit.OK if told["ok"] else Exit.FAILED


@contextmanager
def _folder(data_dir: Path | None) -> Iterator[Path]:
    if data_dir is not None:
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            sentence = f"The folder {data_dir} can't be made: {error.strerror}."
            raise Invalid(sentence, field="data-dir") from error
        yield data_dir.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-")).resolve()
    try:
        yield folder
    finally:
        _remove_database(folder / "muster")
        shutil.rmtree(folder)


def _remove_database(data_dir: Path) -> None:
    # As root it lives elsewhere, where the user that runs it can reach it; and a server that was
    # killed has left it running.
    import trio

    from muster.pg.embedded import Embedded

    if not data_dir.exists() or not any(data_dir.iterdir()):
        return
    cluster = Embedded(data_dir)

    async def stop() -> None:
        await cluster.join()
        await cluster.leave()

    if cluster.postmaster is not None:
        trio.run(stop)
    shutil.rmtree(cluster.places.home)


def _run(work: Callable[[], Awaitable[R]], *, as_json: bool = False) -> R | None:
    """Run until done (its result) or until Ctrl-C, SIGTERM or a hang-up (None)."""
    import trio

    from muster.clients.demo.children import ChildEndedError, DemoError
    from muster.clients.stopping import until_stopped

    try:
        return trio.run(until_stopped, work)
    except BaseExceptionGroup as group:
        found, rest = group.split(DemoError)
        if found is None or rest is not None:
            raise
        leaf: BaseException = found
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        complaints = leaf.complaints if isinstance(leaf, ChildEndedError) else ()
        if not (as_json and complaints):
            for line in complaints:
                click.echo(f"  {shown(line)}", err=True)
            raise MusterError(as_sentence(str(leaf))) from None
        # In JSON there is one line, and the last sentence of a muster command is what it dies of.
        sentences = [line for line in complaints if line.startswith(_SENTENCE)] or complaints
        last = shown(sentences[-1].removeprefix(_SENTENCE))
        raise MusterError(as_sentence(f"{leaf}: {last}")) from None


def _print(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    print_table(
        ("Mail", "Kind", "Message", "Draft", "Outbox", "Well"),
        [
            (
                each["file"],
                each["kind"],
                each.get("state") or "-",
                (each.get("draft") or {}).get("state", "-"),
                each.get("outbox_file") or "-",
                "yes" if each["ok"] else "; ".join(each["problems"]),
            )
            for each in told["messages"]
        ],
        empty="There were no mails.",
        whole=True,
    )
