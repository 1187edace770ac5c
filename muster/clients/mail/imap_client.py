"""IMAPClient, bent to our own sockets: what opens and bounds them is its owner's business."""

import imaplib
import logging
import socket
import ssl
from collections.abc import Callable

from imapclient import IMAPClient

from muster.clients.mail.settings import MailServer, Security

# It warns of what servers say in other letters than ASCII; that is no news to anybody.
logging.getLogger("imapclient").addHandler(logging.NullHandler())


class _Imap4(imaplib.IMAP4):
    def __init__(self, host: str, ready: Callable[[], socket.socket]) -> None:
        self._ready = ready
        super().__init__(host)

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        del timeout
        return self._ready()


class ImapClient(IMAPClient):  # type: ignore[misc]  # it has no types
    """IMAPClient over a socket that is there already, so that its owner can shut it down."""

    def __init__(self, server: MailServer, sock: socket.socket) -> None:
        self._ready = sock
        super().__init__(
            server.host,
            port=server.port,
            ssl=server.security is Security.TLS,
            ssl_context=server.tls,
        )
        # It would format everything that arrives for a log that nobody keeps.
        self._imap.debug = 0
        self.normalise_times = False

    def _create_IMAP4(self) -> imaplib.IMAP4:  # noqa: N802 - IMAPClient's own name
        return _Imap4(self.host, self._socket)

    def _socket(self) -> socket.socket:
        if not self.ssl:
            return self._ready
        context = self.ssl_context or ssl.create_default_context()
        wrapped: ssl.SSLSocket = context.wrap_socket(self._ready, server_hostname=self.host)
        return wrapped

    def begin_idle(self) -> bool:
        """Begin an IDLE; True when the server had news in the same breath.

        Those lie in a buffer of ours already, and nobody who waits for the socket sees them.
        """
        self.idle()
        sock = self.socket()
        sock.setblocking(False)
        try:
            return bool(self._imap.file.peek(1))
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        finally:
            sock.setblocking(True)
