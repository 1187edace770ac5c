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


def well(subject: str, sentence: str) -> Finding:
    """Something works. A missing capital or full stop is put on the sentence, here as below."""
    return _find(subject, Verdict.WELL, sentence)


def warning(subject: str, sentence: str) -> Finding:
    """Something works and may still surprise."""
    return _find(subject, Verdict.WARNING, sentence)


def fault(subject: str, sentence: str) -> Finding:
    """Something does not work."""
    return _find(subject, Verdict.FAULT, sentence)


def _find(subject: str, verdict: Verdict, sentence: str) -> Finding:
    begun = sentence if sentence.startswith("muster ") else sentence[:1].upper() + sentence[1:]
    ended = begun if begun.endswith(".") else f"{begun}."
    return Finding(subject=subject, verdict=verdict, sentence=ended)
