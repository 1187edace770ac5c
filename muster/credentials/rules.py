"""Bearer secrets: one table for every kind, of which only digests are kept.

A credential is live until it is revoked, and it opens a door only while its holder lives and the
account is not disabled. Those three are asked anew at each knock, by one query: a cache of
credentials would need every revocation to reach it, and the query costs less than the doubt.
"""

import enum
from datetime import datetime, timedelta

import attrs

from muster.errors import Invalid
from muster.ids import CredentialKind, NewToken
from muster.names import check_name

EXPIRY_SECONDS_MAX = 10 * 366 * 24 * 60 * 60


class Scope(enum.Enum):
    """What a person's own token may do: look, or change things too."""

    READ = "read"
    WRITE = "write"


@attrs.frozen(kw_only=True)
class Issue:
    """Make a token for a plugin, an agent, …: `holder_id` is its id, by kind."""

    kind: CredentialKind
    holder_id: int


@attrs.frozen(kw_only=True)
class Issued:
    """A new credential; its token's text is shown once and kept nowhere."""

    credential_id: int
    token: NewToken


@attrs.frozen(kw_only=True)
class Knock:
    """Ask whose token has this digest."""

    sha256: bytes


@attrs.frozen(kw_only=True)
class Known:
    """Somebody who may come in, by a door for this kind."""

    credential_id: int
    owner_id: int
    kind: CredentialKind = attrs.field(converter=CredentialKind)
    holder_id: int
    holder_name: str
    scope: Scope | None = attrs.field(  # of a personal token; the other kinds have none
        default=None, converter=attrs.converters.optional(Scope)
    )


@attrs.frozen(kw_only=True)
class Revoke:
    """End every live token of a holder."""

    kind: CredentialKind
    holder_id: int


@attrs.frozen(kw_only=True)
class RevokeOne:
    """End one token of a holder, and leave it its others."""

    kind: CredentialKind
    holder_id: int
    credential_id: int


@attrs.frozen(kw_only=True)
class ListLive:
    """List the tokens of a kind that are not revoked, by holder and then the oldest first."""

    kind: CredentialKind
    limit: int = 1000


@attrs.frozen(kw_only=True)
class LiveToken:
    """A holder's token that opens its door, without its secret."""

    id: int
    holder_id: int
    created_at: datetime
    last_seen_at: datetime | None


@attrs.frozen(kw_only=True)
class NoteSeen:
    """These credentials of one owner's were used just now."""

    credential_ids: frozenset[int]


@attrs.frozen(kw_only=True)
class AddPersonal:
    """Make a token for the owner's own programs; audit action `token.added`."""

    name: str
    scope: Scope = Scope.WRITE
    expires_seconds: int | None = None  # None: it lasts until it is revoked


@attrs.frozen(kw_only=True)
class ListPersonal:
    """List the owner's own tokens, the newest first; the ended ones too if asked."""

    ended_too: bool = False
    limit: int = 500


@attrs.frozen(kw_only=True)
class RevokePersonal:
    """End the live token of that name; audit action `token.revoked`."""

    name: str


@attrs.frozen(kw_only=True)
class PersonalToken:
    """A token of a person's own, without its secret."""

    id: int
    name: str
    scope: Scope = attrs.field(converter=Scope)
    created_at: datetime
    expires_at: datetime | None
    last_seen_at: datetime | None
    revoked_at: datetime | None


def expiry_of(command: AddPersonal, now: datetime) -> datetime | None:
    """Until when the token is good; Invalid for a name or a time that breaks its rule."""
    check_name(command.name, field="name")
    if command.expires_seconds is None:
        return None
    if not 0 < command.expires_seconds <= EXPIRY_SECONDS_MAX:
        raise Invalid("The token must last from a second to ten years.", field="expires")
    return now + timedelta(seconds=command.expires_seconds)
