"""Replies as files of a Maildir, as a sink of the SDK.

A reply is written under a name that comes from the draft, which is its proof after a restart.
"""

from pathlib import Path

import attrs
import trio

from muster.clients.mail.compose import draft_key, message_id
from muster.clients.mail.maildir import deliver, find_delivered
from muster.clients.mail.replies import make_reply
from muster.clients.mail.state import MailState
from muster.clients.plugin import Draft, SendFailedError, SendUnknownError, Sent


@attrs.frozen(kw_only=True)
class MaildirOut:
    """The Maildir `outbox`; something else carries its mails on."""

    outbox: Path
    state: MailState
    sender_address: str | None

    async def send(self, draft: Draft) -> Sent:
        """Write the reply into the outbox, once; its Message-ID is the reference.

        SendFailedError when this folder does not know the mail that it answers, when an address
        is missing, or when the file can't be written: then nothing lies in the outbox.
        """
        reply = await make_reply(self.state, draft, sender_address=self.sender_address)
        try:
            await trio.to_thread.run_sync(deliver, self.outbox, draft_key(draft), reply.content)
        except FileExistsError:
            # Our own file from before a crash: this very reply has been sent.
            return Sent(reply.message_id)
        except OSError as error:
            if await trio.to_thread.run_sync(find_delivered, self.outbox, draft_key(draft)):
                raise SendUnknownError(f"the outbox has it but would not sync: {error}") from error
            raise SendFailedError(f"The outbox can't be written: {error}") from error
        return Sent(reply.message_id)

    async def was_sent(self, draft: Draft) -> str | None:
        """The reply's Message-ID when its file lies in the outbox.

        None proves nothing: whoever carries the outbox on may have taken the file already.
        """
        path = await trio.to_thread.run_sync(find_delivered, self.outbox, draft_key(draft))
        if path is None:
            return None
        facts = await self.state.find_reply_facts(draft.message_external_id)
        sender = self.sender_address or (facts.own_address if facts else None)
        return message_id(draft, sender) if sender else path.name
