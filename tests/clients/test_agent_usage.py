"""What the runner tells of a turn's tokens is what the server takes, whatever a backend counted."""

import json

from hypothesis import given
from hypothesis import strategies as st

from muster.clients.agent.backend import Usage
from muster.clients.agent.frames import turn_done, turn_failed
from muster.token_use import TokenUse, read_token_use

USAGES = st.builds(
    Usage,
    model=st.text(st.characters(), max_size=400),
    calls=st.integers(),
    input_tokens=st.integers(),
    cached_input_tokens=st.integers(),
    output_tokens=st.integers(),
)


@given(USAGES)
def test_every_count_is_taken(usage: Usage) -> None:
    """A model's name of any kind and counts of any size are told within the server's bounds."""
    for frame in (turn_done("t", "", usage), turn_failed("t", "", usage)):
        read_token_use(json.loads(frame)["usage"])


def test_an_ordinary_count_is_told_as_it_is() -> None:
    """Nothing is changed of a count within the bounds."""
    usage = Usage(
        model="gpt/é-1", calls=2, input_tokens=3, cached_input_tokens=1, output_tokens=10**12
    )
    told = read_token_use(json.loads(turn_done("t", "", usage))["usage"])
    assert told == TokenUse(
        model="gpt/é-1", calls=2, input_tokens=3, cached_input_tokens=1, output_tokens=10**12
    )
