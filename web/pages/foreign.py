"""Forms of other sites are refused: 403, and nothing of them is shown.

A POST is taken only from our own pages: browsers say so with `Sec-Fetch-Site: same-origin`, older
ones with an `Origin` that is the public URL's. That, with the cookie's SameSite, is what keeps
other sites out; there is no token in the forms to lose.
"""

from werkzeug.datastructures import Headers

from muster.errors import Forbidden


class ForeignForm(Forbidden):
    """A form that another site sent, or that does not say where it comes from."""

    default_code = "foreign_form"


def refuse_foreign(headers: Headers, public_url: str) -> None:
    """Raise ForeignForm unless the headers of a POST say that it comes from a page of ours."""
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is None and origin is None:
        is_own = False
    else:
        is_own = site in (None, "same-origin") and (
            origin is None or origin.lower() == public_url.lower()
        )
    if not is_own:
        raise ForeignForm("This form did not come from a page of this muster; nothing was done.")
