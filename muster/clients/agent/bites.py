"""What a model says, in bites: a frame a token would be hundreds of frames a sentence."""

from collections.abc import Awaitable, Callable

import attrs
import trio

BITE_CHARACTERS = 400
BITE_SECONDS = 1.0
BITE_CHARACTERS_MAX = 40_000  # as much as one `turn.say` takes


@attrs.define(kw_only=True, eq=False)
class Bites:
    """Passes text on to `say` once there is enough of it, or a second after the last bite.

    No timer runs: what a silent model has said last is passed on with its next word, or by `end`.
    """

    say: Callable[[str], Awaitable[None]]
    _held: str = attrs.field(default="", init=False)
    _said_at: float = attrs.field(factory=trio.current_time, init=False)

    async def hear(self, text: str) -> None:
        """Take in a piece of text."""
        self._held += text
        waited = trio.current_time() - self._said_at
        if len(self._held) >= BITE_CHARACTERS or waited >= BITE_SECONDS:
            await self.end()

    async def end(self) -> None:
        """Pass on what is held."""
        held, self._held = self._held, ""
        self._said_at = trio.current_time()
        for start in range(0, len(held), BITE_CHARACTERS_MAX):
            await self.say(held[start : start + BITE_CHARACTERS_MAX])
