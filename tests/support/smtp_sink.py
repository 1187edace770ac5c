"""A sink to an SMTP server, with the facts of one mail that can be answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from muster.clients.mail.parse import ReplyFacts
from muster.clients.mail.settings import MailServer
from muster.clients.mail.smtp import Patience
from muster.clients.mail.smtp_out import SmtpOut
from muster.clients.mail.state import MailState
from muster.clients.plugin import Draft, open_journal

EXTERNAL_ID = "mail-1"
FACTS = ReplyFacts(
    to=("bo@in.test",),
    own_address="ada@home.test",
    subject="Hi",
    message_id="<m1@in.test>",
    references=(),
)


def approved(body: str = "Hello Bo.", *, draft_id: int = 1) -> Draft:
    """An approved reply to the mail."""
    return Draft(
        draft_id=draft_id, message_external_id=EXTERNAL_ID, body=body, approved_at="2026-03-01"
    )


@asynccontextmanager
async def smtp_sink(
    folder: Path,
    server: MailServer,
    *,
    patience: Patience | None = None,
    to: tuple[str, ...] = FACTS.to,
) -> AsyncIterator[SmtpOut]:
    """Yield the sink; its replies go `to` these."""
    async with open_journal(folder / "sink") as journal:
        state = MailState(journal)
        await state.prepare()
        await state.keep_reply_facts(EXTERNAL_ID, attrs.evolve(FACTS, to=to))
        yield SmtpOut(
            server=server,
            state=state,
            sender_address=None,
            patience=patience or Patience(),
        )
