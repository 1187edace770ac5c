"""Whose session a new message is, if muster can tell by itself.

A thread that a session started, or a review of a pull request that a session authored; the thread
first. Only messages of the plugin named agent-mail are looked at, and none to which nobody can
reply (plugins: "A reply on a thread a session started", "A pull-request review mail").
"""

from datetime import timedelta

import attrs

from muster.chief.self_routing.settings import SelfRouting
from muster.messages.rules import Message
from muster.mirror.operations.sessions import SessionView, find_session
from muster.mirror.resuming import Cause
from muster.pg.database import Transaction
from muster.plugins.operations import name_plugins
from muster.routes.authors import Author, via_review
from muster.routes.operations.authors import find_author
from muster.routes.operations.threads import find_thread
from muster.routes.reviews import Review, read_review
from muster.routes.rules import LONG_DEADLINE
from muster.routes.threads import AGENT_MAIL, via_thread


@attrs.frozen(kw_only=True)
class Target:
    """A session that a message is for; `session` is None while no host ever showed it.

    `host_id` is the one host that may resume it for a review: the author's recorded one, if any.
    """

    cause: Cause
    claude_session: str
    session: SessionView | None
    via: str
    host_id: int | None = None

    @property
    def can_take(self) -> bool:
        """Whether a window shows it into which a text can be pasted."""
        return self.session is not None and self.session.can_take


def deadline_of(cause: Cause) -> timedelta | None:
    """How long a route waits for its answer; None for what every route has."""
    return LONG_DEADLINE if cause is Cause.REVIEW else None


async def find_targets(tx: Transaction, message: Message, settings: SelfRouting) -> list[Target]:
    """The sessions that a new message of agent mail is for, the most certain one first."""
    if message.no_reply or not settings.routing:
        return []
    found = [await _by_thread(tx, message), await _by_review(tx, message, settings)]
    return [target for target in found if target is not None]


async def _by_thread(tx: Transaction, message: Message) -> Target | None:
    if message.thread is None:
        return None
    bound = await find_thread(tx, message.thread)
    if bound is None:
        return None
    return Target(
        cause=Cause.THREAD,
        claude_session=bound.claude_session,
        session=await find_session(tx, bound.claude_session),
        via=via_thread(message.thread, bound.claude_session),
    )


async def _by_review(tx: Transaction, message: Message, settings: SelfRouting) -> Target | None:
    review = review_of(message, settings.pr_mail_senders)
    author = None if review is None else await find_author(tx, review)
    if review is None or author is None:
        return None
    return Target(
        cause=Cause.REVIEW,
        claude_session=author.claude_session,
        session=await find_session(tx, author.claude_session),
        via=via_review(review, author.claude_session),
        host_id=author.host_id,
    )


def review_of(message: Message, senders: frozenset[str]) -> Review | None:
    """The review that a message is, if a gate on the list sent it and its plugin proved that."""
    if message.sender not in senders or not message.sender_verified:
        return None
    return read_review(message.body)


async def find_absent_author(
    tx: Transaction, message: Message, senders: frozenset[str]
) -> Author | None:
    """For a review that goes to the chief: its author, if no online window shows that session."""
    review = review_of(message, senders)
    if review is None:
        return None
    if (await name_plugins(tx, [message.plugin_id])).get(message.plugin_id) != AGENT_MAIL:
        return None
    author = await find_author(tx, review)
    if author is None:
        return None
    session = await find_session(tx, author.claude_session)
    return author if session is None or not session.online else None
