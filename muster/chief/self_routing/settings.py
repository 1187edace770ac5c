"""What the deployment lets muster do by itself with a message; everything is off by default."""

from collections.abc import Awaitable, Callable

import attrs

from muster.messages.rules import Message
from muster.pg.database import Transaction

# Answers a message that is a request to muster itself; whether it was one.
AnswerRequest = Callable[[Transaction, Message], Awaitable[bool]]
Allows = Callable[[int, str, str], bool]  # a user's id, a plugin's name, a sender


def nobody(_user_id: int, _plugin: str, _sender: str) -> bool:
    """An empty list allows nobody."""
    return False


@attrs.frozen(kw_only=True)
class SelfRouting:
    """`answer_request` answers requests for fleet reports, where these are on.

    `routing` is MUSTER_SESSION_ROUTING with plugins on; without it none of the rest counts.
    `pr_mail_senders` are exact addresses of review gates. `resume_allow` tells whose mail may have
    an ended session resumed, unless `resume_off`.
    """

    answer_request: AnswerRequest | None = None

    routing: bool = False
    pr_mail_senders: frozenset[str] = frozenset()
    resume_allow: Allows = nobody
    resume_off: bool = False

    @property
    def is_on(self) -> bool:
        """Whether muster does anything by itself."""
        return self.routing or self.answer_request is not None
