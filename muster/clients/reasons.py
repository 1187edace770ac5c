"""Why a connection or a file could not be had, in the system's own words and once.

Trio and httpx2 wrap what the system said, each in a sentence of its own that names the address
anew; what is told to a person is the cause below all of them.
"""

import errno
import os
import socket
import ssl
from collections.abc import Iterator

NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
)
"""What OpenSSL makes of a first answer that is plain text."""

_PLAINLY = {
    errno.ECONNREFUSED: "connection refused",
    errno.ETIMEDOUT: "timed out",
    errno.EHOSTUNREACH: "no route to it",
    errno.ENETUNREACH: "no route to it",
    errno.ECONNRESET: "connection reset",
}


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what lies below it: of a group the first one."""
    below: BaseException | None = error
    while below is not None:
        yield below
        if isinstance(below, BaseExceptionGroup):
            below = below.exceptions[0]
        else:
            below = below.__cause__ or below.__context__


def why_unconnected(error: BaseException) -> str | None:
    """Why no connection came about; None when nothing below `error` says it."""
    for cause in causes(error):
        match cause:
            case socket.gaierror(errno=socket.EAI_NONAME) | UnicodeError():
                return "the name is unknown"
            case socket.gaierror():
                return f"the name can't be looked up ({cause.strerror})"
            case ssl.SSLError():
                return "it does not begin with TLS" if is_no_tls(cause) else None
            case OSError(errno=int(number)):
                return _PLAINLY.get(number) or os.strerror(number)
            case _:
                pass
    return None


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """Why a file could not be read, without its name."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return error.strerror or type(error).__name__


def is_no_tls(error: BaseException) -> bool:
    """Whether the other end answered a beginning of TLS with something else."""
    return any(
        isinstance(cause, ssl.SSLError) and cause.reason in NOT_TLS for cause in causes(error)
    )
