"""Where mail comes from and where replies go, as the command line and the tests say it."""

import enum
import ipaddress
import ssl
from datetime import date
from pathlib import Path
from typing import Final, Literal

import attrs

FOLDERS_MAX = 100
POLL_SECONDS_MAX = 28 * 60
"""Servers may hang up on a client that says nothing for 29 minutes (RFC 2177)."""

EVERYTHING: Final = "all"
Since = date | Literal["all"] | None


class Security(enum.Enum):
    """How a connection to a mail server is secured."""

    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"


@attrs.frozen(kw_only=True)
class Login:
    """A user and password; the password is in no repr, log line or error."""

    user: str
    password: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class MailServer:
    """One server: where it listens, how it is secured, and who we are there.

    `tls` is the context that checks its certificate; the system's own when it is None.
    ValueError when a password would go over the network without TLS: only a server on this
    machine itself may be told one in the clear.
    """

    host: str
    port: int
    security: Security
    login: Login | None
    tls: ssl.SSLContext | None = None

    def __attrs_post_init__(self) -> None:
        if self.security is Security.NONE and self.login is not None and not _is_here(self.host):
            raise ValueError(f"a password goes to {self.host} only with TLS")

    def shown(self) -> str:
        """As a person knows it: `ada at mail.example.test:993`, or without a user."""
        user = f"{self.login.user} at " if self.login else ""
        return f"{user}{self.place()}"

    def place(self) -> str:
        """Where it listens: `mail.example.test:993`."""
        return f"{self.host}:{self.port}"

    def identity(self) -> str:
        """Whose account it is, as state folders are named after it: never to be changed."""
        user = f"{self.login.user}@" if self.login else ""
        return f"{user}{self.place()}"


@attrs.frozen(kw_only=True)
class FromMaildir:
    """Mail lies in the `new` and `cur` of this folder."""

    folder: Path


@attrs.frozen(kw_only=True)
class FromImap:
    """Mail lies in these folders of an IMAP account, none of which is changed in any way.

    Without `since` it is the mail that arrives after the state folder first saw a folder; with a
    date also what arrived on that day or later, with EVERYTHING all there is. The first folder
    that there is tells of its new mail by itself (IDLE); that of the others, and of all when the
    server has no IDLE, is found every `poll_seconds`, 1 s to 28 minutes.

    ValueError when the server has no login, or there are no folders, two of a name, or over 100.
    """

    server: MailServer
    folders: tuple[str, ...] = ("INBOX",)
    since: Since = None
    poll_seconds: float = 60.0

    def __attrs_post_init__(self) -> None:
        if self.server.login is None:
            like = f"imaps://user@{self.server.host}"
            raise ValueError(f"an IMAP account needs a user and a password: write {like}")
        if not 1 <= len(self.folders) <= FOLDERS_MAX:
            raise ValueError(f"an IMAP account is read in 1 to {FOLDERS_MAX} folders")
        # INBOX is the one name whose letters' case means nothing (RFC 3501 section 5.1).
        names = ["INBOX" if name.upper() == "INBOX" else name for name in self.folders]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(f"each folder has a name and is named once: {', '.join(names)}")
        if not 1 <= self.poll_seconds <= POLL_SECONDS_MAX:
            raise ValueError(f"a folder is looked at every 1 to {POLL_SECONDS_MAX} seconds")


@attrs.frozen(kw_only=True)
class ToMaildir:
    """Replies are written into this folder, and something else carries them on."""

    folder: Path


@attrs.frozen(kw_only=True)
class ToSmtp:
    """Replies are handed to this mail server."""

    server: MailServer


Incoming = FromMaildir | FromImap
Outgoing = ToMaildir | ToSmtp


def _is_here(host: str) -> bool:
    """Whether a connection to `host` never leaves this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
