"""An approved reply made ready for whatever sends it: who it is from, who it goes to, its text."""

from datetime import UTC, datetime

import attrs

from muster.clients.mail.compose import compose, message_id
from muster.clients.mail.state import MailState
from muster.clients.plugin import Draft, SendFailedError


@attrs.frozen(kw_only=True)
class Reply:
    """One mail to send; `content` is all of it, with CRLF lines."""

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    content: bytes


async def make_reply(state: MailState, draft: Draft, *, sender_address: str | None) -> Reply:
    """The mail of a draft, from `sender_address` or else from where its message was delivered.

    SendFailedError when this plugin does not know the mail that it answers, when an address is
    missing, or when one can't stand in a header.
    """
    facts = await state.find_reply_facts(draft.message_external_id)
    if facts is None:
        raise SendFailedError("This plugin does not know the mail that the reply answers.")
    sender = sender_address or facts.own_address
    if sender is None:
        raise SendFailedError("The mail names no address of ours: start muster mail --from.")
    try:
        content = compose(draft, facts, sender_address=sender, date=datetime.now(UTC))
    except ValueError as error:
        raise SendFailedError(str(error)) from error
    return Reply(
        sender=sender,
        recipients=facts.to,
        message_id=message_id(draft, sender),
        content=content,
    )
