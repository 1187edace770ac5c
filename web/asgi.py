"""Names for the shapes of ASGI 3, and what a send raises once nobody is left to read it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
# Called once for each crash, with where it was; it must not block.
ReportCrash = Callable[[BaseException, str], None]


class PeerGone(ConnectionError):
    """The client has left or was dropped; what was sent went nowhere and nothing will any more.

    You don't get it for a client that only ended its own side: that one still gets its answer.
    The wire takes it as the end of the request, never as a crash.
    """
