"""The whole host program: what it watches, what it does, and the socket that it comes back to.

The order of beginnings matters: the journal first, since it holds the state folder; then what hooks
left, so that a paste of an earlier life can be proven; the socket last.
"""

import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import attrs
import trio
import trio_websocket

from muster.clients.coming_back import Backoff, come_back
from muster.clients.dial import Closed, converse, socket_url
from muster.clients.mirror import frames
from muster.clients.mirror.desk import Desk
from muster.clients.mirror.journal import Journal, open_journal
from muster.clients.mirror.locks import forget_locks
from muster.clients.mirror.model import Focus, Lines, Resumes, Sessions, TellFocus
from muster.clients.mirror.outbox import Outbox
from muster.clients.mirror.paste import Paster
from muster.clients.mirror.socket import Connection
from muster.clients.mirror.tmux import Tmux
from muster.clients.mirror.watch import Watch
from muster.clients.mirror.windows import Listing, cleaned
from muster.clients.wires import Wire


class HostFailedError(Exception):
    """A host that was up can't go on, as with a full disk; begun anew it may. Says why.

    You don't get one for what was so from the beginning: that is an OSError.
    """


OpenSessions = Callable[[TellFocus], AbstractAsyncContextManager[Sessions]]


@attrs.frozen(kw_only=True)
class Host:
    """How one host is set: `name` is the machine's own, 1 to 80 characters once cleaned.

    `folder` is its state folder; without `resumes` it offers none, and without `interactive`
    nothing is ever typed.
    """

    url: str
    token: str = attrs.field(repr=False)
    name: str
    folder: Path
    tmux: Tmux
    interactive: bool
    open_sessions: OpenSessions
    resumes: Resumes | None
    lines: Lines
    backoff: Backoff = attrs.field(factory=Backoff)

    async def run(self) -> Closed:
        """Mirror until cancelled; returns only what no retry mends.

        Raises StateFolderBusyError when another process holds the folder, OSError when it can't
        be used, and HostFailedError when that is so later. All may come in a group.
        """
        outbox = Outbox()

        def tell(focus: Focus) -> None:
            outbox.put(("focus", (focus.claude_session, focus.at)), frames.focus(focus))

        is_up = False
        try:
            async with (
                open_journal(self.folder, self.url) as journal,
                self.open_sessions(tell) as sessions,
            ):
                forget_locks(self.folder / "locks")
                is_up = True
                return await self._run(journal, sessions, outbox)
        except* OSError as errors:
            if not is_up:
                raise
            raise HostFailedError(str(first_of(errors))) from errors

    async def _run(self, journal: Journal, sessions: Sessions, outbox: Outbox) -> Closed:
        def list_windows(listing: Listing) -> None:
            outbox.put(("windows", None), frames.windows(listing))

        watch = Watch(tmux=self.tmux, sessions=sessions, lines=self.lines, changed=list_windows)
        paster = Paster(
            tmux=self.tmux,
            sessions=sessions,
            stillness=watch.stillness,
            journal=journal,
            locks=self.folder / "locks",
            interactive=self.interactive,
        )
        async with trio.open_nursery() as nursery:
            desk = Desk(
                nursery=nursery,
                tmux=self.tmux,
                journal=journal,
                outbox=outbox,
                paster=paster,
                resumes=self.resumes,
                look_now=watch.look_now,
                lines=self.lines,
            )
            await desk.take_up()
            nursery.start_soon(watch.run)
            nursery.start_soon(desk.show_screens)
            connect = partial(self._connect, outbox, desk, watch)
            closed = await come_back(connect, self.backoff, self._report)
            nursery.cancel_scope.cancel()
        return closed

    async def _connect(self, outbox: Outbox, desk: Desk, watch: Watch) -> Closed:
        async def serve(socket: trio_websocket.WebSocketConnection) -> Closed:
            watch.tell_again()
            connection = Connection(
                wire=Wire(socket=socket),
                hello=frames.hello(
                    cleaned(self.name, frames.HOST_CHARACTERS_MAX) or "host",
                    interactive=self.interactive,
                    resume_spawn=self.resumes is not None,
                ),
                outbox=outbox,
                desk=desk,
                lines=self.lines,
            )
            return await connection.serve()

        tls = ssl.create_default_context() if self.url.startswith("https:") else None
        return await converse(socket_url(self.url, frames.PATH), self.token, tls, serve)

    def _report(self, event: str, facts: Mapping[str, object]) -> None:
        self.lines(event, **facts)


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group, and in the groups within, as nurseries wrap what passes them."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
