"""A DMARC pass that the own mail server wrote down (RFC 8601).

Anybody can write an Authentication-Results field into a mail, so only the topmost one is looked
at, and only when it is of a server that the settings name; everything below it may be forged and
counts for nothing. That server must put its field on top of every mail, or remove those that carry
its name: the settings may name no server that does neither. What does not parse to the last
character is in doubt. A pass of SPF, DKIM or ARC says nothing about From and is not asked.
"""

from authres import AuthResError, FeatureContext, dmarc
from authres.core import AuthenticationResultsHeader

from muster.clients.mail.parts import PARSER_FAULTS
from muster.clients.mail.verify.alignment import ascii_domain
from muster.clients.mail.verify.head import Head
from muster.clients.mail.verify.proof import Doubt

RESULTS_CHARS_MAX = 8 * 1024
FIELD_NAME = "authentication-results"


class StrictHeader(AuthenticationResultsHeader):  # type: ignore[misc]
    """The library's parser, which otherwise skips a property that it can't read."""

    def __init__(self, feature_context: FeatureContext) -> None:
        super().__init__(feature_context, strict=True)


def prove_by_results(head: Head, *, domain: str, authserv_ids: tuple[str, ...]) -> str | Doubt:
    """The id of the server that says that DMARC passed for the From domain, or why none does."""
    fields = head.named(FIELD_NAME)
    if not fields:
        return Doubt(reason="it has no Authentication-Results")
    value = fields[0].unfolded()
    if len(value) > RESULTS_CHARS_MAX:
        return Doubt(reason="its topmost Authentication-Results can't be read")
    try:
        header = StrictHeader.parse_value(FeatureContext(dmarc), value.decode("ascii"))
    except (AuthResError, *PARSER_FAULTS):
        return Doubt(reason="its topmost Authentication-Results can't be read")
    server = str(header.authserv_id)
    if server.lower() not in {one.lower() for one in authserv_ids}:
        return Doubt(reason="its topmost Authentication-Results is of a server that is not named")
    found = [one for one in header.results if str(one.method).lower() == "dmarc"]
    if len(found) != 1 or str(found[0].result).lower() != "pass":
        return Doubt(reason=f"{server} does not say that DMARC passed")
    told = [
        str(one.value)
        for one in found[0].properties
        if (str(one.type).lower(), str(one.name).lower()) == ("header", "from")
    ]
    if len(told) != 1 or ascii_domain(told[0]) != domain:
        return Doubt(reason=f"{server} says that DMARC passed for another domain than From's")
    return server
