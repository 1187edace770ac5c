"""How a raw mail becomes a message: parsed, and its sender proven or not."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from muster.clients.mail.maildir import RawMail
from muster.clients.mail.parse import InboundMail, parse

Verify = Callable[[bytes], Awaitable[bool]]


async def prove_nothing(_raw: bytes) -> bool:
    """Stands for a verifier where nothing is set up to prove a sender."""
    return False


@attrs.frozen(kw_only=True)
class Reading:
    """The settings of reading.

    `verify` gets a whole raw mail and says whether its From address is proven to be the one that
    sent it (plugins: "sender_verified"); in doubt, and when it has no answer, it says no.
    With `trim_quotes` the quoted history at a mail's end is left out of its body.
    """

    verify: Verify = prove_nothing
    trim_quotes: bool = False

    async def read(self, raw: RawMail, *, place: str) -> InboundMail:
        """Read one raw mail; `place` says, for the person, where the whole of it lies."""
        whole = None if raw.is_whole else raw.sha256
        mail = await trio.to_thread.run_sync(
            lambda: parse(raw.beginning, place=place, whole=whole, without_quotes=self.trim_quotes)
        )
        if raw.is_whole and await self.verify(raw.beginning):
            return attrs.evolve(mail, message=attrs.evolve(mail.message, sender_verified=True))
        return mail
