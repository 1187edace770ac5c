"""`muster serve`: the server. stdout carries event lines, one JSON object each; stderr the log.

    {"event":"ready","url":…,"bind":…,"pid":…,"version":…}   first, once it answers
    {"event":"setup","url":…,"expires_at":…}                  while there is no account: open it
    {"event":"draining","seconds":…}                          on SIGTERM or SIGINT
    {"event":"stopped"}                                       last

Order of a stop: drain, stop accepting, actors leaf first, pool, PostgreSQL.
A second signal cuts the drain short; further ones change nothing, for the rest has its own bounds.
A signal that comes before the server is ready ends its start.

Whoever does not read stdout or stderr, or has left, misses lines and holds nothing up.
"""

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from muster.commands.output import utc

if TYPE_CHECKING:
    import trio

    from actors import ChildSpec, Event, Log
    from muster.config import Config
    from muster.node.node import Node
    from muster.outcomes import Hint
    from muster.pg.boot import AdminFacts

POOL_SIZE = 10
GRACE_SECONDS = 3.0
DOORS_CLOSED = "The doors for plugins are closed; MUSTER_PLUGINS=1 opens them."
HOOK_IS_UNSET = (
    "Routing is on and MUSTER_HOOK_TOKEN is not set: a session's answer by command line needs a"
    " personal token."
)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command()
def serve() -> None:
    """Run the server until SIGTERM or Ctrl-C.

    The address is MUSTER_BIND, the folder MUSTER_DATA_DIR; `muster config show` lists all settings.
    Plugins are off unless MUSTER_PLUGINS=1.
    """
    import trio

    from muster.config import Config

    config = Config.from_environ(os.environ)
    _raise_open_files()
    trio.run(_serve, config)


def _raise_open_files() -> None:
    """Take as many open files as the system grants: each parked claim and socket is one."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Relay:
    """Takes the hints of commits from the first on, and passes them to the node once it is."""

    def __init__(self) -> None:
        self.node: Node | None = None

    def publish(self, hints: "Sequence[Hint]") -> None:
        if self.node is not None:
            self.node.publish(hints)


class _Stop:
    """What each signal asks for, from the first moment to the last."""

    def __init__(self) -> None:
        import trio

        self.starting = trio.CancelScope()
        self.ready = False
        self.asked = trio.Event()
        self.again = trio.Event()
        # What stands before the receiver's handlers is what comes back after them, and there Trio
        # delivers anew what nobody took: by default that would kill a server that is as good as
        # over.
        for number in _SIGNALS:
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: object) -> None:
        self.starting.cancel()

    async def heed(self, signals: "AsyncIterator[int]") -> None:
        """Take signals as they come. They are taken to the end, or one would kill the process."""
        async for _ in signals:
            if not self.ready:
                self.starting.cancel()
            elif not self.asked.is_set():
                self.asked.set()
            else:
                self.again.set()


async def _serve(config: "Config") -> None:
    import secrets

    import trio

    from actors import Log, write_json_lines
    from muster.errors import MusterError
    from muster.node.node import Node
    from muster.pg import boot

    log, relay, stop = Log(), _Relay(), _Stop()
    failure: Exception | None = None
    with _own_stderr() as stderr, trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as talk:
            talk.start_soon(write_json_lines, log, stderr, _shown(config.log_level))
            talk.start_soon(stop.heed, signals)
            try:
                with stop.starting:
                    async with boot.open_store(
                        database_url=config.database_url,
                        database_app_url=config.database_app_url,
                        data_dir=config.data_dir,
                        publish=relay.publish,
                        pool_size=POOL_SIZE,
                    ) as (db, facts):
                        node = Node(node_id=secrets.token_hex(8), config=config, db=db, log=log)
                        relay.node = node
                        await _run(node, facts, stop)
            except (MusterError, OSError) as error:
                failure = error
            talk.cancel_scope.cancel()
    for number in _SIGNALS:
        # Python sets its own handlers back while it ends, and ignored signals stay ignored.
        signal.signal(number, signal.SIG_IGN)
    if isinstance(failure, OSError):
        raise click.ClickException(f"The address {_bind(config)} cannot be served: {failure}")
    if failure is not None:
        raise failure
    _say("stopped")


async def _run(node: "Node", facts: "AdminFacts", stop: _Stop) -> None:
    """Build the tree, serve as its body, and drain on a signal."""
    import functools

    import trio

    from muster.node.node import open_node
    from muster.pg.listener import notify
    from web.app import open_app
    from web.serve import serve as serve_app

    shutdown = trio.Event()
    async with (
        open_node(
            node,
            database=_database_children(node, facts),
            notify=functools.partial(notify, node.db),
        ),
        open_app(node) as app,
        trio.open_nursery() as doors,
    ):
        start = functools.partial(
            serve_app,
            app,
            host=node.config.bind_host,
            port=node.config.bind_port,
            report=functools.partial(_report_crash, node.log),
            shutdown=shutdown,
            grace_seconds=GRACE_SECONDS,
        )
        port = await doors.start(start)
        node.config = node.config.listening_on(port)
        doors.start_soon(_until_stopped, node, stop, shutdown)


def _database_children(node: "Node", facts: "AdminFacts") -> "list[ChildSpec]":
    from actors import ChildSpec
    from muster.node.database import Listening, Postgres
    from muster.node.reports import ReportsSink

    children = []
    if facts.cluster is not None:
        cluster = facts.cluster
        children.append(ChildSpec(name="postgres", start=lambda: Postgres(cluster)))
    children.append(
        ChildSpec(
            name="listener",
            start=lambda: Listening(facts.app_url, node.fanout.publish, node.fanout.resync),
        )
    )
    children.append(
        ChildSpec(
            name="supervision-sink",
            start=lambda: ReportsSink(node.log, node.db, node=node.node_id),
        )
    )
    return children


async def _until_stopped(node: "Node", stop: _Stop, shutdown: "trio.Event") -> None:
    import gc

    import trio

    from actors import Event

    gc.freeze()
    stop.ready = True
    _say(
        "ready",
        url=node.config.public_url,
        bind=_bind(node.config),
        pid=os.getpid(),
        node=node.node_id,
        plugins=node.config.plugins,
    )
    if not node.config.plugins:
        node.log.report("root/web", Event.NOTE, reason=DOORS_CLOSED)
    if node.config.routing and node.config.hook_token is None:
        node.log.report("root/web", Event.NOTE, reason=HOOK_IS_UNSET)
    async with trio.open_nursery() as inviting:
        inviting.start_soon(_invite, node)
        inviting.start_soon(_check_hook_owner, node)
        await stop.asked.wait()
        inviting.cancel_scope.cancel()
    _say("draining", seconds=node.config.drain_seconds)
    async with trio.open_nursery() as draining:
        draining.start_soon(_cut_short, stop, draining.cancel_scope)
        await node.drain()
        draining.cancel_scope.cancel()
    shutdown.set()


async def _invite(node: "Node") -> None:
    """While nobody has an account, tell by which address the first one is opened, this once.

    The address is a secret for its 15 minutes, so it stands in no log.
    """
    from muster.accounts.operations.links import has_users, make_link
    from muster.errors import Unavailable
    from muster.principals import Node as NodePrincipal
    from muster.principals import System

    try:
        if await node.db.run(System(), has_users, None):
            return
        link = await node.db.run(NodePrincipal(), make_link, None)
    except Unavailable:
        return  # the next start tells it
    url = f"{node.config.public_url}/setup?link={link.text}"
    _say("setup", url=url, expires_at=utc(link.expires_at))
    sentence = "There is no account yet. Within 15 minutes, open this once to make yours:"
    await _tell(f"{sentence}\n  {url}\n")


async def _check_hook_owner(node: "Node") -> None:
    """Note an owner of the hook token who does not exist: its door would tell programs alone."""
    from actors import Event
    from muster.accounts.operations import find_live_user
    from muster.accounts.rules import FindUser
    from muster.errors import Unavailable
    from muster.principals import System

    name = node.config.hook_owner
    if name is None:
        return
    with contextlib.suppress(Unavailable):
        if await node.db.run(System(), find_live_user, FindUser(name=name)) is None:
            reason = f"MUSTER_HOOK_OWNER names {name}, and there is no live account of that name."
            node.log.report("root/web", Event.NOTE, reason=reason)


async def _tell(text: str) -> None:
    """Write to stderr; whoever does not read it holds nothing up."""
    import trio

    with contextlib.suppress(OSError):
        await trio.to_thread.run_sync(os.write, 2, text.encode(), abandon_on_cancel=True)


async def _cut_short(stop: _Stop, scope: "trio.CancelScope") -> None:
    await stop.again.wait()
    scope.cancel()


def _report_crash(log: "Log", crash: BaseException, where: str) -> None:
    from actors import Event

    log.report(f"root/web/{where}", Event.CRASHED, reason="crash", error=crash)


def _shown(level: str) -> "frozenset[Event]":
    """The events that go to stderr at a log level."""
    from actors import Event

    errors = {Event.CRASHED, Event.GAVE_UP, Event.MAILBOX_FULL}
    warnings = errors | {Event.RESTARTED, Event.SLOW_HANDLER, Event.NOTE}
    by_level = {"error": errors, "warning": warnings}
    return frozenset(by_level.get(level, Event))


def _bind(config: "Config") -> str:
    host = f"[{config.bind_host}]" if ":" in config.bind_host else config.bind_host
    return f"{host}:{config.bind_port}"


def _say(event: str, **members: object) -> None:
    try:
        click.echo(json.dumps({"event": event, **members}))
    except BrokenPipeError:
        # Whoever started us wanted no more than the first line. What is in the buffer goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _own_stderr() -> TextIO:
    """A second stream on stderr that holds nothing back.

    At its exit Python flushes sys.stderr, and would wait for ever behind a write that nobody reads.
    """
    raw = io.FileIO(os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2), "w")
    return io.TextIOWrapper(
        raw,
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
