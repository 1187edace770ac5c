"""How often somebody may try to sign in: a sliding window for each account and each address.

An attempt is a row that is written, as a failed one, before anything is compared, so that attempts
made at once are counted too; a success takes the mark of failure away. One that is refused here
leaves no row: then whoever tries on and on does not lengthen the wait.

An account is counted by the digest of the name that was typed, whether or not anybody has it.
Behind a proxy all visitors share an address, so its limit is wider than a lone person needs.

A browser that was signed in to the account once is counted by itself (OWASP: "device cookies"), and
so is a session that proves anew who it is: whatever strangers guess, from wherever, its owner is
not locked out. It has as many attempts as a name has, and they are no one else's.
"""

import ipaddress
import math
from datetime import datetime, timedelta
from typing import Final

from muster.ids import digest

WINDOW: Final = timedelta(minutes=15)
ACCOUNT_FAILURES_MAX: Final = 10
ADDRESS_FAILURES_MAX: Final = 60
ADDRESS_CHARACTERS_MAX: Final = 64
_IPV6_NETWORK_BITS = 64  # what one customer gets


def account_key(name: str) -> bytes:
    """What stands for the name that somebody typed."""
    return digest(name[:200].encode(errors="replace").decode())


def address_key(address: str) -> str:
    """What stands for an address: itself, or the network of an IPv6 one."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:ADDRESS_CHARACTERS_MAX]
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network((int(known), _IPV6_NETWORK_BITS), strict=False))


def session_keys(session_id: int) -> tuple[bytes, str]:
    """What stands for a browser by a session of its own, in the place of a name and of an address.

    No name that is typed comes to this key, for those are rid of NULs; no address is spelled so.
    """
    return digest(f"\0session {session_id}"), f"session {session_id}"


def wait_seconds(pivot: datetime | None, now: datetime) -> int:
    """How long to wait when the newest failures reach back to `pivot`, as many as are allowed.

    0 when there is none, or it has left the window: obeying the answer works.
    """
    if pivot is None:
        return 0
    return max(0, math.ceil((pivot + WINDOW - now).total_seconds()))
