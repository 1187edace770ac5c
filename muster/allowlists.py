"""Whose mail muster may act on by itself (plugins: "Routing a message to a session").

The entries of MUSTER_ROUTE_RELAY_ALLOW and MUSTER_MAIL_RESUME_ALLOW:

    <user id>:<plugin name>:<address>         one address of e-mail
    <user id>:<plugin name>:*@<domain>        every address of exactly that domain
    <user id>:<plugin name>:<owner>/<handle>  one address of agent mail
    <user id>:<plugin name>:<owner>/*         every handle of exactly that owner

Addresses of e-mail are compared in ASCII, A as a and nothing beyond: the Kelvin sign is no k. Those
of agent mail have a grammar of their own and are never folded; a sender outside of it matches
nothing. An entry of one kind never matches a sender of the other. A handle is only its owner's
gateway's word, so an entry for one handle is no stronger than one for all of that owner.

A sender may be an address alone, or a name with the address behind it in angle brackets; where
there is more than one pair of these, nothing is matched.
"""

import re
from typing import Final, Self

import attrs

ENTRIES_MAX: Final = 1000
_USER_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_PLUGIN = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_OWNER = r"[a-z0-9][a-z0-9-]{0,38}"
_HANDLE = r"[a-z][a-z0-9-]{1,31}"
AGENT_MAIL: Final = re.compile(f"{_OWNER}/{_HANDLE}", re.ASCII)
_ANY_HANDLE = re.compile(rf"{_OWNER}/\*", re.ASCII)
_DOMAIN = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
_ADDRESS = re.compile(rf"[a-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{_DOMAIN}", re.ASCII)
_ANY_OF_DOMAIN = re.compile(rf"\*@{_DOMAIN}", re.ASCII)
_NAMED = re.compile(r"[^<>]*<([^<>]+)>\s*", re.ASCII)
_UPPER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


@attrs.frozen
class Allowlist:
    """Entries as they are compared; an empty one allows nobody."""

    entries: frozenset[tuple[int, str, str]] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read entries that commas part; ValueError names the first that is none."""
        listed = [part.strip() for part in text.split(",") if part.strip()]
        if len(listed) > ENTRIES_MAX:
            raise ValueError(f"may list at most {ENTRIES_MAX} senders")
        return cls(frozenset(map(_entry, listed)))

    def __str__(self) -> str:
        """The entries as a setting holds them."""
        return (
            ",".join(sorted(f"{user}:{plugin}:{of}" for user, plugin, of in self.entries)) or "none"
        )

    def allows(self, user_id: int, plugin: str, sender: str | None) -> bool:
        """Whether mail of this sender, brought by this plugin of this user, is on the list."""
        return any((user_id, plugin, pattern) in self.entries for pattern in _patterns(sender))


def is_agent_mail(sender: str) -> bool:
    """Whether this is an address of agent mail, `<owner>/<handle>`."""
    return AGENT_MAIL.fullmatch(sender) is not None


def _entry(text: str) -> tuple[int, str, str]:
    user, _, rest = text.partition(":")
    plugin, _, address = rest.partition(":")
    if _USER_ID.fullmatch(user) is None or _PLUGIN.fullmatch(plugin) is None:
        raise ValueError(f"lists {text!r}, which is no <user id>:<plugin name>:<address>")
    if is_agent_mail(address) or _ANY_HANDLE.fullmatch(address) is not None:
        return int(user), plugin, address
    folded = address.translate(_UPPER)
    if _ADDRESS.fullmatch(folded) is None and _ANY_OF_DOMAIN.fullmatch(folded) is None:
        raise ValueError(
            f"lists {text!r}: {address!r} is no address, *@<domain>, <owner>/<handle> or <owner>/*"
        )
    return int(user), plugin, folded


def _patterns(sender: str | None) -> tuple[str, ...]:
    """The entries that a sender is matched by; none for what has the form of no address."""
    if sender is None:
        return ()
    if is_agent_mail(sender):
        return sender, f"{sender.partition('/')[0]}/*"
    named = _NAMED.fullmatch(sender)
    address = (named[1] if named is not None else sender).translate(_UPPER)
    if _ADDRESS.fullmatch(address) is None:
        return ()
    # An entry that begins with *@ is for a domain, so an address of that name is matched by none.
    domain = address.rpartition("@")[2]
    return (f"*@{domain}",) if address.startswith("*@") else (address, f"*@{domain}")
