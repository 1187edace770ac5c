"""The mail plugin from a Maildir to an SMTP server, as a process that can be killed.

Run as `python -m tests.support.smtp_child URL FOLDER PORT`: mail lies in FOLDER/in, and the state
in FOLDER/state; the mail server listens on PORT of 127.0.0.1 without TLS.
"""

import sys
from functools import partial
from pathlib import Path

import trio

from muster.clients.mail.program import run_mail
from muster.clients.mail.settings import FromMaildir, MailServer, Security, ToSmtp
from tests.support.scripted_server import TOKEN


async def main(url: str, folder: str, port: str, *, once: bool = False) -> None:
    """Run until it is killed, or once."""
    server = MailServer(host="127.0.0.1", port=int(port), security=Security.NONE, login=None)
    await run_mail(
        url=url,
        token=TOKEN,
        incoming=FromMaildir(folder=Path(folder) / "in"),
        outgoing=ToSmtp(server=server),
        state_folder=Path(folder) / "state",
        once=once,
    )


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
