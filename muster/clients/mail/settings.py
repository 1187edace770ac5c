"""Where mail comes from and where replies go, as the command line and the tests say it."""

import enum
import ipaddress
import ssl
from pathlib import Path

import attrs


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
        """As a person knows it: `ada@mail.example.test:993`."""
        user = f"{self.login.user}@" if self.login else ""
        return f"{user}{self.host}:{self.port}"


@attrs.frozen(kw_only=True)
class FromMaildir:
    """Mail lies in the `new` and `cur` of this folder."""

    folder: Path


@attrs.frozen(kw_only=True)
class FromImap:
    """Mail lies in these folders of an IMAP account, none of which is changed in any way."""

    server: MailServer
    folders: tuple[str, ...] = ("INBOX",)


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
