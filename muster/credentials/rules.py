"""Bearer secrets: one table for every kind, of which only digests are kept.

A credential is live until it is revoked, and it opens a door only while its holder lives and the
account is not disabled. Those three are asked anew at each knock, by one query: a cache of
credentials would need every revocation to reach it, and the query costs less than the doubt.
"""

import attrs

from muster.ids import CredentialKind, NewToken


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


@attrs.frozen(kw_only=True)
class Revoke:
    """End every live token of a holder."""

    kind: CredentialKind
    holder_id: int


@attrs.frozen(kw_only=True)
class NoteSeen:
    """These credentials of one owner's were used just now."""

    credential_ids: frozenset[int]
