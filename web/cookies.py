"""The cookies of a browser: its session's, a passkey's ceremony's, and the one it is known by.

It is known by the cookie of the session that it was last signed in by, which it keeps when it signs
out: that opens nothing then, but strangers' guesses do not keep this browser out (muster/accounts).

All are HttpOnly, SameSite=Lax and for the whole site. Where the public URL is https they are
Secure too, and their names begin with `__Host-`: then no other host of the domain can set them.
"""

from typing import Final

from werkzeug.http import parse_cookie

from web.asgi import Scope

SESSION: Final = "muster_session"
CEREMONY: Final = "muster_ceremony"
KNOWN: Final = "muster_known"


def is_secure(public_url: str) -> bool:
    """Whether browsers keep this muster's cookies for encrypted connections alone."""
    return public_url.startswith("https://")


def name_of(cookie: str, public_url: str) -> str:
    """The full name of one of the cookies above."""
    return f"__Host-{cookie}" if is_secure(public_url) else cookie


def read_cookie(scope: Scope, name: str) -> str:
    """The value of a cookie of a raw request; empty when there is none.

    Read as the pages read theirs, so that both know the same session: whatever other programs of
    this host have put beside it, and of two of one name the first.
    """
    sent = [value.decode("latin-1") for header, value in scope["headers"] if header == b"cookie"]
    return parse_cookie(";".join(sent)).get(name, "")
