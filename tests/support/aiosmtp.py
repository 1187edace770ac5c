"""aiosmtpd, an SMTP server that others wrote, in a thread of its own.

It keeps what it took, and refuses the recipients that it is told to refuse.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from bench.ports import free_port
from muster.clients.mail.settings import Login, MailServer, Security


@attrs.frozen(kw_only=True)
class TakenMail:
    """One mail as the server took it; the text's line ends are those of the wire."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    options: tuple[str, ...]


@attrs.define(kw_only=True)
class Took:
    """The state that tests look at; aiosmtpd calls its methods in its own thread."""

    port: int
    login: Login | None = None
    refused: dict[str, str] = attrs.field(factory=dict)
    mails: list[TakenMail] = attrs.field(factory=list)
    resets: int = 0

    def as_seen(
        self, security: Security = Security.NONE, *, trust: ssl.SSLContext | None = None
    ) -> MailServer:
        """This server as a plugin's setting."""
        return MailServer(
            host="127.0.0.1", port=self.port, security=security, login=self.login, tls=trust
        )

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's own name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: list[str]
    ) -> str:
        """Take the recipient, or refuse it as told."""
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_RSET(self, _server: Any, _session: Any, _envelope: Any) -> str:  # noqa: N802
        """Count it."""
        self.resets += 1
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        """Take the mail."""
        self.mails.append(
            TakenMail(
                sender=envelope.mail_from,
                recipients=tuple(envelope.rcpt_tos),
                content=envelope.original_content,
                options=tuple(envelope.mail_options),
            )
        )
        return f"250 2.0.0 OK: taken as {len(self.mails)}"

    def authenticate(
        self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, told: LoginPassword
    ) -> AuthResult:
        """Let in the one user that there is."""
        assert self.login is not None
        right = (self.login.user.encode(), self.login.password.encode())
        return AuthResult(success=(told.login, told.password) == right, handled=False)


@asynccontextmanager
async def aiosmtp(
    *,
    login: Login | None = None,
    tls: ssl.SSLContext | None = None,
    is_implicit: bool = False,
    **settings: Any,
) -> AsyncIterator[Took]:
    """Serve on a free port of 127.0.0.1 until the block ends; `settings` are aiosmtpd's own."""
    took = Took(port=free_port(), login=login)
    if login is not None:
        settings["authenticator"] = took.authenticate
    if tls is None or is_implicit:
        # aiosmtpd does not see a TLS that was there from the start, and warns of logins then.
        settings["auth_require_tls"] = False
    else:
        settings |= {"tls_context": tls, "require_starttls": True}
        settings["auth_required"] = login is not None
    controller = Controller(
        took,
        hostname="127.0.0.1",
        port=took.port,
        ssl_context=tls if is_implicit else None,
        **settings,
    )
    await trio.to_thread.run_sync(controller.start)
    try:
        yield took
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(controller.stop)
