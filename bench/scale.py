"""How much a scenario does: in full, or just enough to see that it works."""

from typing import TypeVar

import attrs

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Scale:
    """`quick` runs show that a scenario works; their figures say nothing."""

    quick: bool

    @property
    def rounds(self) -> int:
        """How often each variant takes its turn."""
        return self.pick(5, 2)

    def pick(self, full: T, quick: T) -> T:
        """One of two."""
        return quick if self.quick else full
