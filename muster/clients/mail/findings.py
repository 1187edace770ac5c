"""What `muster mail check` tells: one finding for each thing that works or does not."""

import enum

import attrs


class Verdict(enum.Enum):
    """Whether a thing works; a `warning` works and may still surprise."""

    WELL = "well"
    WARNING = "warning"
    FAULT = "fault"


@attrs.frozen(kw_only=True)
class Finding:
    """One checked thing: what it is (`imap`, `smtp`, `dns`, `muster`), a verdict, a sentence."""

    subject: str
    verdict: Verdict
    sentence: str
