"""What `muster mail check` looks at: both ends of the mail, DNS, and the door at muster."""

from pathlib import Path
from typing import assert_never

import trio

from muster.clients.mail.findings import Finding, fault, warning, well
from muster.clients.mail.imap_check import check_imap
from muster.clients.mail.maildir import list_mail, make_outbox
from muster.clients.mail.settings import (
    FromImap,
    FromMaildir,
    Incoming,
    Outgoing,
    ToMaildir,
    ToSmtp,
)
from muster.clients.mail.smtp_check import check_smtp
from muster.clients.mail.verify.resolver import Resolver, check_dns
from muster.clients.plugin import PluginClient, PluginError

NO_FROM = "No --from: replies come from the address that got the mail."


async def check_mail(
    *,
    url: str,
    token: str,
    incoming: Incoming,
    outgoing: Outgoing,
    resolver: Resolver | None,
    sender_address: str | None,
) -> list[Finding]:
    """Look at everything side by side, and tell it in one order; reads, posts and sends nothing."""
    found: dict[int, list[Finding]] = {}
    checks = (
        lambda: _check_incoming(incoming),
        lambda: _check_outgoing(incoming, outgoing),
        lambda: _check_dns(resolver),
        lambda: _check_muster(url, token),
    )

    async def look(number: int) -> None:
        found[number] = await checks[number]()

    async with trio.open_nursery() as nursery:
        for number in range(len(checks)):
            nursery.start_soon(look, number)
    told = [finding for number in range(len(checks)) for finding in found[number]]
    return told if sender_address else [*told, warning("from", NO_FROM)]


async def _check_incoming(incoming: Incoming) -> list[Finding]:
    match incoming:
        case FromImap():
            return await check_imap(incoming)
        case FromMaildir(folder=folder):
            try:
                count = await trio.to_thread.run_sync(lambda: sum(1 for _ in list_mail(folder)))
            except OSError as error:
                return [fault("maildir", _why(folder, error))]
            sentence = f"The Maildir {folder} holds {count} mails."
            return [well("maildir", sentence)]
        case _:
            assert_never(incoming)


async def _check_outgoing(incoming: Incoming, outgoing: Outgoing) -> list[Finding]:
    match outgoing:
        case ToSmtp():
            return await check_smtp(outgoing)
        case ToMaildir(folder=folder):
            maildir = incoming.folder if isinstance(incoming, FromMaildir) else None
            try:
                make_outbox(folder, maildir=maildir)
            except (OSError, ValueError) as error:
                return [fault("outbox", _why(folder, error))]
            sentence = f"The outbox {folder} takes replies; something else has to carry them on."
            return [well("outbox", sentence)]
        case _:
            assert_never(outgoing)


def _why(folder: Path, error: OSError | ValueError) -> str:
    """What the system said of a folder, without its number; our own words as they are."""
    if isinstance(error, OSError) and error.strerror:
        return f"the folder {error.filename or folder} cannot be used: {error.strerror}"
    said = str(error)
    return said if not said.startswith(str(folder)) else f"the folder {said}"


async def _check_dns(resolver: Resolver | None) -> list[Finding]:
    if resolver is None:
        sentence = "No DKIM keys are looked up: no sender is proven by a signature."
        return [warning("dns", sentence)]
    return await check_dns(resolver)


async def _check_muster(url: str, token: str) -> list[Finding]:
    try:
        async with PluginClient(url, token, note=_say_nothing) as client:
            await client.knock()
    except (PluginError, ValueError) as error:
        return [fault("muster", str(error))]
    sentence = f"muster at {url} takes the token."
    return [well("muster", sentence)]


def _say_nothing(_line: str) -> None:
    """The findings say it all."""
