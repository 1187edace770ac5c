"""The tokens that a turn took, as the agent that ran it counted them.

The agent's word alone: muster writes it down beside the turn and decides nothing by it.
"""

import unicodedata
from collections.abc import Mapping
from typing import Final

import attrs

MODEL_CHARACTERS_MAX: Final = 200
COUNT_MAX: Final = 10**12
# What no line on a terminal and no text in PostgreSQL should hold: controls and lone surrogates.
_REFUSED: Final = frozenset({"Cc", "Cs"})


@attrs.frozen(kw_only=True)
class TokenUse:
    """Tokens of a turn's calls to a model; `cached_input_tokens` are a part of `input_tokens`.

    Each count is 0 to 10**12; `model` names the one called last, in at most 200 characters.
    """

    model: str
    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


def read_token_use(value: object) -> TokenUse:
    """Read a count of tokens from JSON; members that nobody knows are left out.

    Raises ValueError, which names the member, for one that is missing or out of its bounds.
    """
    if not isinstance(value, Mapping):
        raise ValueError("usage must be an object")  # noqa: TRY004 - the caller tells a peer of it
    model = value.get("model")
    if not isinstance(model, str) or not _is_name(model):
        raise ValueError(f"usage.model must be a string of at most {MODEL_CHARACTERS_MAX}")
    return TokenUse(
        model=model,
        calls=_count(value, "calls"),
        input_tokens=_count(value, "input_tokens"),
        cached_input_tokens=_count(value, "cached_input_tokens"),
        output_tokens=_count(value, "output_tokens"),
    )


def _count(value: Mapping[str, object], name: str) -> int:
    count = value.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= COUNT_MAX:
        raise ValueError(f"usage.{name} must be an integer of 0 to {COUNT_MAX}")
    return count


def _is_name(text: str) -> bool:
    return len(text) <= MODEL_CHARACTERS_MAX and not any(
        unicodedata.category(character) in _REFUSED for character in text
    )
