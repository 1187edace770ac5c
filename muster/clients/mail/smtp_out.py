"""Replies handed to a mail server, as a sink of the SDK (plugins: "At most once")."""

from functools import partial

import attrs

from muster.clients.mail.replies import make_reply
from muster.clients.mail.settings import MailServer
from muster.clients.mail.smtp import Handing, Patience, hand_over
from muster.clients.mail.state import MailState
from muster.clients.mail.told import run_told
from muster.clients.plugin import Draft, Sent


@attrs.frozen(kw_only=True)
class SmtpOut:
    """The mail server that carries the replies on; one connection a reply."""

    server: MailServer
    state: MailState
    sender_address: str | None
    patience: Patience = attrs.field(factory=Patience)

    async def send(self, draft: Draft) -> Sent:
        """Hand the reply over; its Message-ID, and the server's last answer.

        SendFailedError, SendLaterError and SendUnknownError as `hand_over` raises them. A
        cancellation ends it at once while nothing of the text was written (SendLaterError) and
        within 10 s after that; it comes out at the caller's next wait.
        """
        handing = Handing(self.patience)
        return await run_told(partial(self._send, draft, handing), on_cancel=handing.stop)

    async def _send(self, draft: Draft, handing: Handing) -> Sent:
        reply = await make_reply(self.state, draft, sender_address=self.sender_address)
        answer = await hand_over(self.server, reply, handing)
        return Sent(reply.message_id, answer.shown())

    async def was_sent(self, draft: Draft) -> None:
        """Nobody can say: a mail server is not asked for what it took."""
        del draft
