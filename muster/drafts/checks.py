"""The shapes of what comes in about drafts: sizes and characters, exact at their edges."""

from typing import Final

from muster.drafts.rules import Report
from muster.errors import Invalid
from muster.names import count_bytes

BODY_BYTES_MAX: Final = 16 * 1024
EXTERNAL_REF_CHARACTERS_MAX: Final = 200
DETAIL_BYTES_MAX: Final = 4 * 1024


def check_body(text: str) -> None:
    """Check the size of a draft's text (plugins: "Replying"), to be done before and after folding.

    Raises Invalid for a text that is empty, over 16 KiB of UTF-8, or cannot be kept.
    """
    if not 1 <= count_bytes(text, field="body") <= BODY_BYTES_MAX:
        raise Invalid(f"body must have 1 to {BODY_BYTES_MAX} bytes.", field="body")


def check_report(report: Report) -> None:
    """Check the fields of a result (plugins: "POST /plugin/v1/drafts/{id}/result").

    Raises Invalid for an `external_ref` over 200 characters or a `detail` over 4 KiB of UTF-8.
    """
    if report.external_ref is not None:
        count_bytes(report.external_ref, field="external_ref")
        if len(report.external_ref) > EXTERNAL_REF_CHARACTERS_MAX:
            raise Invalid(
                f"external_ref must have at most {EXTERNAL_REF_CHARACTERS_MAX} characters.",
                field="external_ref",
            )
    if report.detail is not None and count_bytes(report.detail, field="detail") > DETAIL_BYTES_MAX:
        raise Invalid(f"detail must have at most {DETAIL_BYTES_MAX} bytes.", field="detail")
