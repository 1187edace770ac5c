"""Bearer tokens and what is kept of them (plugins: "Two ways in"); which numbers can be ids."""

import enum
import hashlib
import secrets
from typing import Final

import attrs

_ROW_ID_MAX: Final = 2**63 - 1  # a bigint; the database raises for a greater one


class CredentialKind(enum.Enum):
    """What a token is for; the value is its prefix."""

    PLUGIN = "mpl_"
    PERSONAL = "mst_"
    AGENT = "mag_"
    MIRROR_HOST = "mmh_"


@attrs.frozen(kw_only=True)
class NewToken:
    """A token as it is shown, once, and the digest that is stored."""

    text: str = attrs.field(repr=False)
    sha256: bytes


def new_token(kind: CredentialKind) -> NewToken:
    """Make a token of 256 random bits behind the prefix of its kind."""
    text = kind.value + secrets.token_urlsafe(32)
    return NewToken(text=text, sha256=digest(text))


def digest(text: str) -> bytes:
    """The sha256 of a text's UTF-8 bytes: what is stored of a token, what a decision quotes."""
    return hashlib.sha256(text.encode()).digest()


def kind_of(text: str) -> CredentialKind | None:
    """Tell a token's kind by its prefix; None for what is no token of ours."""
    return next((kind for kind in CredentialKind if text.startswith(kind.value)), None)


def is_row_id(number: int) -> bool:
    """Whether a row may have this id; whoever asks for another one asks for nothing there is."""
    return 0 < number <= _ROW_ID_MAX
