"""Mails through the real plugin to a scripted muster, and the contract's checks on what arrived."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from muster.clients.mail.maildir import make_outbox
from muster.clients.mail.program import run_mail
from muster.clients.mail.reading import Reading
from muster.clients.mail.settings import FromMaildir, ToMaildir
from muster.messages import posts, rules
from tests.support.scripted_server import MESSAGES, TOKEN, scripted_server


async def post_all(mails: Sequence[bytes], folder: Path, reading: Reading) -> dict[str, Any]:
    """Run the plugin once over these mails; returns what muster stored, by external id.

    Checks that each mail was posted exactly once and that no field breaks the contract, by the
    server's own rules.
    """
    make_outbox(folder / "in", maildir=folder / "out")
    for number, raw in enumerate(mails):
        (folder / "in" / "new" / f"{number:05d}").write_bytes(raw)
    notes: list[str] = []
    async with scripted_server() as server:
        left = await run_mail(
            url=server.url,
            token=TOKEN,
            incoming=FromMaildir(folder=folder / "in"),
            outgoing=ToMaildir(folder=folder / "out"),
            state_folder=folder / "state",
            reading=reading,
            once=True,
            patience_seconds=5,
            note=notes.append,
        )
    assert left == 0, notes
    posted = [request.body["external_id"] for request in server.asked(MESSAGES)]
    assert posted == [hashlib.sha256(raw).hexdigest() for raw in mails]
    for stored in server.messages.values():
        check_stored(stored)
    return server.messages


def check_stored(stored: dict[str, Any]) -> None:
    """Check one posted message as the server does."""
    received_at = stored.get("received_at")
    fields = {**stored, "received_at": received_at and datetime.fromisoformat(received_at)}
    posts.check(rules.Post(**fields))
