"""`muster mail`: bring a Maildir's mail to muster, and write the approved replies to an outbox."""

import functools
import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path

import click

from muster.commands.exits import Exit, as_sentence
from muster.commands.tokens import DEFAULT_URL, PLUGIN, bad_setting, read_token
from muster.errors import (
    Conflict,
    Invalid,
    MusterError,
    TooMany,
    Unauthorized,
    Unavailable,
)

TRY_LATER_SECONDS = 60


@click.command("mail")
@click.option(
    "--maildir", type=click.Path(path_type=Path), required=True, help="The Maildir to read."
)
@click.option(
    "--outbox", type=click.Path(path_type=Path), required=True, help="The Maildir for replies."
)
@click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}].")
@click.option("--token-file", type=click.Path(path_type=Path), help="Holds the plugin's token.")
@click.option("--state", type=click.Path(path_type=Path), help="The plugin's own folder.")
@click.option("--from", "sender_address", help="The replies' address [where the mail arrived].")
@click.option("--once", is_flag=True, help="Do what there is to do, then end.")
def mail(
    *,
    maildir: Path,
    outbox: Path,
    url: str | None,
    token_file: Path | None,
    state: Path | None,
    sender_address: str | None,
    once: bool,
) -> int:
    """Run the mail plugin: mail in, approved replies out, each of them once.

    Only `new` and `cur` of the Maildir are read and nothing in it is changed. Replies are written
    to the outbox, a Maildir that is made when it is missing; your mail program sends them on.

    The token is read from --token-file, MUSTER_PLUGIN_TOKEN or MUSTER_PLUGIN_TOKEN_FILE. What was
    posted and sent is remembered in --state, one folder a server (a folder of its own under
    XDG_STATE_HOME otherwise). Exits 1 when --once could not bring every mail, 5 when the token is
    refused, 6 when muster can't be reached, 7 when another process runs on the folder, 75 when
    --once would have to wait.
    """
    # Here and below: what is heavy is imported only once it is needed.
    import trio

    from muster.clients.mail.program import mail_until_stopped, run_mail
    from muster.clients.mail.settings import FromMaildir, ToMaildir

    address = url or os.environ.get("MUSTER_URL") or DEFAULT_URL
    run = functools.partial(
        run_mail,
        url=address,
        token=read_token(PLUGIN, token_file, os.environ),
        incoming=FromMaildir(folder=maildir),
        outgoing=ToMaildir(folder=outbox),
        state_folder=state or default_state_folder(os.environ, url=address, maildir=maildir),
        sender_address=sender_address,
        once=once,
    )
    ending = trio.run(mail_until_stopped, run)
    if isinstance(ending, int):
        return Exit.FAILED if ending else Exit.OK
    raise _told(ending) from ending


def default_state_folder(environ: Mapping[str, str], *, url: str, maildir: Path) -> Path:
    """A folder for this server and this Maildir, so that two never share what they remember."""
    home = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    named = f"{url.rstrip('/')}\0{maildir.resolve()}".encode("utf-8", "surrogateescape")
    return Path(home) / "muster" / f"mail-{hashlib.sha256(named).hexdigest()[:12]}"


def _told(error: Exception) -> MusterError:
    """What the plugin's end means on the command line."""
    from muster.clients import plugin

    sentence = as_sentence(str(error))
    match error:
        case plugin.NotSignedInError():
            return Unauthorized(sentence)
        case plugin.StateFolderBusyError():
            return Conflict(sentence)
        case plugin.TryLaterError():
            asked = error.retry_after_seconds or TRY_LATER_SECONDS
            return TooMany(sentence, retry_after_seconds=math.ceil(asked))
        case plugin.PluginsOffError():
            return TooMany(sentence, retry_after_seconds=TRY_LATER_SECONDS)
        case plugin.UnreachableError() | plugin.ClaimLostError():
            return Unavailable(sentence)
        case ValueError():
            return bad_setting(sentence, None)
        case NotADirectoryError():
            return Invalid(sentence, field="maildir")
        case _:
            return MusterError(sentence)
