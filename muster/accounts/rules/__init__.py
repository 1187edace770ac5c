"""People: an account is live, or disabled until it is enabled again.

Disabling one closes every door to its tokens at once, for each door asks `credentials.knock`, which
sees no disabled account. What the account owns stays as it is, so enabling it brings all back.

Names are unique over all accounts for ever: an audit row that names somebody keeps its meaning.
"""

from datetime import datetime
from typing import assert_never

import attrs

from muster.errors import Invalid
from muster.names import check_line, check_name
from muster.outcomes import Changed, Fact, Hint, HintKind, Unchanged

EMAIL_CHARACTERS_MAX = 254


@attrs.frozen(kw_only=True)
class User:
    """An account. `disabled_at` is None while it is live."""

    id: int
    name: str
    email: str
    created_at: datetime
    disabled_at: datetime | None


@attrs.frozen(kw_only=True)
class UserRef:
    """What is needed to act as somebody."""

    id: int
    name: str


@attrs.frozen(kw_only=True)
class AddUser:
    """Open an account; the password, if it has one, was hashed before (`accounts.passwords`).

    An email of no characters is none.
    """

    name: str
    email: str
    password_hash: str | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class FindUser:
    """Look an account up by its name."""

    name: str


@attrs.frozen(kw_only=True)
class ListUsers:
    """List the accounts by name."""

    limit: int = 1000


@attrs.frozen(kw_only=True)
class Disable:
    """Shut the account's doors; audit action `user.disabled`."""


@attrs.frozen(kw_only=True)
class Enable:
    """Open them again; audit action `user.enabled`."""


Command = Disable | Enable


def check(command: AddUser) -> None:
    """Raise Invalid unless the name and the address have their shape."""
    check_name(command.name, field="name")
    if not command.email:
        return
    check_line(command.email, field="email", characters_max=EMAIL_CHARACTERS_MAX)
    local, at, domain = command.email.rpartition("@")
    if not at or not local or not domain or any(letter.isspace() for letter in command.email):
        raise Invalid("The email must be an address such as ada@example.test.", field="email")


def decide(user: User, command: Command, now: datetime) -> Changed[User] | Unchanged[User]:
    """Apply `command` to `user` as of `now`; a repeated one is Unchanged, nothing is Refused."""
    match command:
        case Disable():
            disabled_at: datetime | None = user.disabled_at or now
            action = "user.disabled"
        case Enable():
            disabled_at, action = None, "user.enabled"
        case _:
            assert_never(command)
    if disabled_at == user.disabled_at:
        return Unchanged(row=user)
    return Changed(
        row=attrs.evolve(user, disabled_at=disabled_at),
        facts=(Fact(action=action, subject=f"user:{user.id}"),),
        hints=(Hint(kind=HintKind.USER_CHANGED, owner_id=user.id, id=user.id),),
    )
