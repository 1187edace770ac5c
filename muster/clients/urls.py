"""Addresses of servers as people set them: read strictly, and quoted nowhere.

An address may hold a password, though none of ours should; so no error made of one shows it.
Rejected: what `urlsplit` raises, which quotes it, and its silence about hosts that no name server
knows how to look up, which ends in another error far from the setting.
"""

from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

HTTP = frozenset({"http", "https"})


def read_url(url: str, schemes: Collection[str]) -> SplitResult | None:
    """The parts of an address of these schemes; None when it can't be one.

    Its host can be looked up, its port is 1 to 65535 or not there.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in schemes or port == 0 or not _is_host(parts.hostname or ""):
        return None
    return parts


def read_http_url(url: str) -> SplitResult | None:
    """The parts of a plain http or https address, without user, query or fragment; else None."""
    parts = read_url(url, HTTP)
    if parts is None or "@" in parts.netloc or parts.query or parts.fragment:
        return None
    return parts


def _is_host(host: str) -> bool:
    if not host or not host.isprintable() or " " in host:
        return False
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return len(host) <= 253
