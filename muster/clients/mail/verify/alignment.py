"""Which domains belong to the same organisation (RFC 7489 sections 3.1 and 3.2).

Relaxed alignment: both domains reduce to the same organisational domain, which is the public
suffix and one label more. The list's private part counts too, so that two customers of one
hoster are strangers. A domain that is a public suffix itself belongs to nobody and aligns with
nothing, not even with itself.
"""

import re
from functools import cache

from publicsuffixlist import PublicSuffixList

HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
HOST_CHARS_MAX = 253


def ascii_domain(text: str) -> str | None:
    """A host name in lower case and in its ASCII form; None when it is none or not surely one.

    Python's codec follows the older standard, which writes some letters as others (ß as ss): a
    name that does not come back as it was is somebody else's and counts as none.
    """
    if not 1 <= len(text) <= HOST_CHARS_MAX:
        return None
    lower = text.lower()
    if not lower.isascii():
        try:
            encoded = lower.encode("idna")
            if encoded.decode("idna") != lower:
                return None
        except ValueError:
            return None
        lower = encoded.decode("ascii")
    return lower if len(lower) <= HOST_CHARS_MAX and HOST.fullmatch(lower) else None


def organisational_domain(domain: str) -> str | None:
    """The domain of the organisation, None for a public suffix. Takes what `ascii_domain` gives."""
    found: str | None = _suffixes().privatesuffix(domain)
    return found


def are_aligned(one: str, other: str) -> bool:
    """Whether both are of one organisation. Takes what `ascii_domain` gives."""
    organisation = organisational_domain(one)
    return organisation is not None and organisation == organisational_domain(other)


def ends_in_listed_suffix(domain: str) -> bool:
    """Whether the domain ends in a suffix of the public list."""
    return _suffixes().publicsuffix(domain, accept_unknown=False) is not None


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
