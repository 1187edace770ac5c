"""`muster mail`: the mail plugin as a program, and its two ends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never

from muster.clients.mail.addresses import usable_address
from muster.clients.mail.imap_in import ImapIn, open_imap
from muster.clients.mail.maildir import list_mail, make_outbox
from muster.clients.mail.maildir_in import MaildirIn
from muster.clients.mail.maildir_out import MaildirOut
from muster.clients.mail.reading import Reading
from muster.clients.mail.settings import (
    FromImap,
    FromMaildir,
    Incoming,
    Outgoing,
    ToMaildir,
    ToSmtp,
)
from muster.clients.mail.smtp_out import SmtpOut
from muster.clients.mail.state import MailState
from muster.clients.plugin import (
    Journal,
    Pace,
    PluginClient,
    PluginError,
    StateFolderBusyError,
    note_on_stderr,
    open_journal,
    run_plugin,
    run_plugin_once,
)
from muster.clients.stopping import until_stopped


async def run_mail(
    *,
    url: str,
    token: str,
    incoming: Incoming,
    outgoing: Outgoing,
    state_folder: Path,
    sender_address: str | None = None,
    reading: Reading | None = None,
    once: bool = False,
    patience_seconds: float = 30.0,
    poll_seconds: float = 2.0,
    note: Callable[[str], None] = note_on_stderr,
) -> int:
    """Run the mail plugin; returns how many mails this run could not bring to muster.

    Without `once` it runs until it is cancelled and looks at the inbox every `poll_seconds`. With
    it, it ends when there is nothing left to do, and gives up where it would have to wait more
    than `patience_seconds`. `sender_address` is the replies' From; without it each reply comes
    from the address that its mail was delivered to. Replies are written to an outbox, from which
    something else carries them on, or handed to a mail server.

    Raises ValueError (a bad URL, token, address, outbox or mail account, a login that is refused
    at the start), NotADirectoryError (the folder is no Maildir), StateFolderBusyError, OSError,
    and the errors of `run_plugin` and `run_plugin_once`.
    """
    sender = None
    if sender_address is not None:
        sender = usable_address(sender_address)
        if sender is None:
            raise ValueError(f"not an address that a mail can come from: {sender_address!r}")
    async with (
        open_journal(state_folder) as journal,
        PluginClient(url, token, note=note) as client,
    ):
        state = MailState(journal)
        await state.prepare()
        sink = _open_sink(outgoing, incoming, state, sender)
        async with _open_source(
            incoming, journal, state=state, reading=reading or Reading(), note=note,
            patience_seconds=patience_seconds if once else None,
        ) as source:  # fmt: skip
            if once:
                await run_plugin_once(
                    client, journal, source=source, sink=sink, note=note,
                    patience_seconds=patience_seconds,
                )  # fmt: skip
            else:
                pace = Pace(poll_seconds=poll_seconds)
                await run_plugin(client, journal, source=source, sink=sink, note=note, pace=pace)
    return source.left_count


@asynccontextmanager
async def _open_source(
    incoming: Incoming,
    journal: Journal,
    *,
    state: MailState,
    reading: Reading,
    note: Callable[[str], None],
    patience_seconds: float | None,
) -> AsyncIterator[MaildirIn | ImapIn]:
    match incoming:
        case FromMaildir(folder=folder):
            # A wrong folder is told at once and not by the first look at it.
            next(list_mail(folder), None)
            yield MaildirIn(maildir=folder, state=state, reading=reading, note=note)
        case FromImap():
            async with open_imap(
                incoming, journal, state=state, reading=reading, note=note,
                patience_seconds=patience_seconds,
            ) as source:  # fmt: skip
                yield source
        case _:
            assert_never(incoming)


def _open_sink(
    outgoing: Outgoing, incoming: Incoming, state: MailState, sender: str | None
) -> MaildirOut | SmtpOut:
    match outgoing:
        case ToMaildir(folder=folder):
            make_outbox(
                folder, maildir=incoming.folder if isinstance(incoming, FromMaildir) else None
            )
            return MaildirOut(outbox=folder, state=state, sender_address=sender)
        case ToSmtp(server=server):
            return SmtpOut(server=server, state=state, sender_address=sender)
        case _:
            assert_never(outgoing)


async def mail_until_stopped(run: Callable[[], Awaitable[int]]) -> int | Exception:
    """Run the plugin until it is told to stop, or until it ends by itself.

    `run` is `run_mail` with its arguments. Returns what it returned or raised, 0 after a signal.
    """

    async def ending() -> int | Exception:
        try:
            return await run()
        except (PluginError, StateFolderBusyError, OSError, ValueError) as error:
            return error

    return await until_stopped(ending) or 0
