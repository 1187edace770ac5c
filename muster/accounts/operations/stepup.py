"""Step-up: what is risky needs somebody who proved who they are a short while ago in this browser.

The window is MUSTER_STEPUP_WINDOW (plugins: "The card"). A page asks `is_fresh` to know what to
offer; the server asks `require_fresh` in the transaction of what is to be done, whatever the page
said.

What can race: the end of the session, of all sessions or of the account. The account's row is
locked first and the session's with the look, in the order of whoever ends them, so what is risky is
done before that end or is refused. Without the first lock a sign-out everywhere, which holds the
account and waits for the session, and a new password, which holds the session and waits for the
account, would wait for each other.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from muster.accounts.operations import lock_account
from muster.accounts.operations.sessions import Visitor
from muster.errors import Refused
from muster.pg.database import Transaction
from muster.pg.query import Query

C = TypeVar("C")
R = TypeVar("R")


class StepUpNeeded(Refused):
    """The sign-in is too old for this; proving anew helps."""

    default_code = "step_up_needed"


def is_fresh(visitor: Visitor, now: datetime, window_seconds: int) -> bool:
    """Whether the visitor proved who they are within the window."""
    return _within(visitor.signed_in_at, now, window_seconds)


def _within(signed_in_at: datetime, now: datetime, window_seconds: int) -> bool:
    return now < signed_in_at + timedelta(seconds=window_seconds)


# One row by its primary key.
SIGNED_IN_AT = Query("""
    select s.signed_in_at from browser_sessions s
    join users u on u.id = s.owner_id and u.disabled_at is null
    where s.owner_id = %(owner_id)s and s.id = %(session_id)s and s.revoked_at is null
      and s.expires_at > %(now)s
    for share of s
""")


async def require_fresh(tx: Transaction, *, session_id: int, window_seconds: int) -> None:
    """Raise StepUpNeeded unless the owner's session lives and its sign-in is within the window.

    Both stay so until the transaction ends, which holds the account's row from here on.
    """
    _, signed_in_at = await tx.together(
        lock_account(tx), tx.scalar(SIGNED_IN_AT, session_id=session_id)
    )
    if signed_in_at is None or not _within(signed_in_at, tx.now, window_seconds):
        raise StepUpNeeded("This needs a fresh sign-in: confirm that it is you.")


def after_step_up(
    operation: Callable[[Transaction, C], Awaitable[R]],
    *,
    session_id: int,
    window_seconds: int,
    unless: Callable[[R], bool] | None = None,
) -> Callable[[Transaction, C], Awaitable[R]]:
    """The same operation, which first requires a fresh sign-in in its own transaction.

    `unless` says of a result that nothing was done. It needs no proof then: nobody should prove who
    they are to hear that it is too late. Any other is undone with the transaction.
    """

    async def guarded(tx: Transaction, command: C) -> R:
        try:
            await require_fresh(tx, session_id=session_id, window_seconds=window_seconds)
        except StepUpNeeded:
            if unless is None:
                raise
            result = await operation(tx, command)
            if not unless(result):
                raise
            return result
        return await operation(tx, command)

    return guarded


async def confirm_fresh(_tx: Transaction, _command: None) -> None:
    """Nothing: what `after_step_up` guards when the work itself is not one operation."""
