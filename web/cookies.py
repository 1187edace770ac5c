"""The cookies of a browser: the one of its session, and the one of a passkey's ceremony.

Both are HttpOnly, SameSite=Lax and for the whole site. Where the public URL is https they are
Secure too, and their names begin with `__Host-`: then no other host of the domain can set them.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Final

from web.asgi import Scope

SESSION: Final = "muster_session"
CEREMONY: Final = "muster_ceremony"


def is_secure(public_url: str) -> bool:
    """Whether browsers keep this muster's cookies for encrypted connections alone."""
    return public_url.startswith("https://")


def name_of(cookie: str, public_url: str) -> str:
    """The full name of SESSION or CEREMONY."""
    return f"__Host-{cookie}" if is_secure(public_url) else cookie


def read_cookie(scope: Scope, name: str) -> str:
    """The value of a cookie of a raw request; empty when there is none."""
    jar: SimpleCookie = SimpleCookie()
    for header, value in scope["headers"]:
        if header == b"cookie":
            try:
                jar.load(value.decode("latin-1"))
            except CookieError:
                return ""
    found = jar.get(name)
    return "" if found is None else found.value
