"""Whether a session took a text as a prompt: by its hook's digest of it, or its transcript.

Both may tell of one prompt, and a prompt is proof of one text only. So one that was used is not
used again, from the other side neither: there it is known by its digest and about when it came.
"""

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from muster.clients.mirror.model import Proof, ProofSource
from muster.clients.mirror.spool import Kept, digest_of
from muster.clients.mirror.transcripts import Reader, Told

USED_MAX: Final = 1000
PART_CHARACTERS_MIN: Final = 32
"""A text this long is proven by a prompt that ends or begins with it.

Somebody's draft stood before it, or somebody typed on behind it and sent off both.
"""

_SAME_PROMPT: Final = timedelta(seconds=10)
# Transcripts have milliseconds, and what is cut off would be before the paste.
_GRAIN: Final = timedelta(milliseconds=1)


@attrs.frozen(kw_only=True)
class _Used:
    """A prompt that was proof of a text."""

    session: str
    digest: str
    at: datetime
    source: ProofSource


class Proofs:
    """Finds proofs, each prompt once; white space in a text does not count."""

    def __init__(self) -> None:
        self._used: deque[_Used] = deque(maxlen=USED_MAX)

    def by_hook(self, kept: Kept | None, digest: str, after: datetime) -> Proof | None:
        """A prompt that a hook told of at or after `after`."""
        for prompt in kept.prompts if kept is not None else ():
            at = moment(prompt.at)
            if kept is not None and prompt.digest == digest and at >= after:
                source = ProofSource.HOOK
                if self._use(_Used(session=kept.session, digest=digest, at=at, source=source)):
                    return Proof(source=source, at=at)
        return None

    def by_transcript(
        self, session: str, reader: Reader, text: str, after: datetime
    ) -> Proof | None:
        """A prompt that stands in the transcript since `after`."""
        source = ProofSource.TRANSCRIPT
        for told in reader.prompts:
            if told.at + _GRAIN > after and _holds(told, text):
                digest = digest_of(told.text)
                if self._use(_Used(session=session, digest=digest, at=told.at, source=source)):
                    return Proof(source=source, at=told.at)
        return None

    def _use(self, used: _Used) -> bool:
        for other in self._used:
            if (other.session, other.digest) != (used.session, used.digest):
                continue
            if other.source is used.source and other.at == used.at:
                return False
            if other.source is not used.source and abs(other.at - used.at) < _SAME_PROMPT:
                return False
        self._used.append(used)
        return True


def moment(seconds: float) -> datetime:
    """A time of the spool."""
    return datetime.fromtimestamp(seconds, UTC)


def _holds(told: Told, text: str) -> bool:
    """Whether a prompt is the text, or has it behind a draft of somebody's or before one."""
    prompt, wanted = "".join(told.text.split()), "".join(text.split())
    is_part = prompt.startswith(wanted) or prompt.endswith(wanted)
    return prompt == wanted or (is_part and len(wanted) >= PART_CHARACTERS_MIN)
