"""How a client dies at the worst moments: by its own SIGKILL, with a small chance at each."""

import os
import random
import signal
from collections.abc import Iterable

import attrs

from bench.chaos.ledger import Ledger, Line, What
from bench.chaos.orders import Orders


@attrs.frozen(kw_only=True)
class Mortal:
    """A process that kills itself now and then, each life of it elsewhere."""

    ledger: Ledger
    name: str
    chance: float
    random: random.Random

    def reach(self, moment: str) -> None:
        """Die here, perhaps: `moment` is `claimed`, `sending` or `sent`."""
        if self.random.random() < self.chance:
            self.ledger.write(What.DEATH, self.name, detail=moment)
            os.kill(os.getpid(), signal.SIGKILL)


def begin_life(ledger: Ledger, orders: Orders, earlier: Iterable[Line]) -> Mortal:
    """Note that a process begins; `earlier` are the lines of its lives before this one."""
    lives = sum(line.what is What.LIFE for line in earlier)
    ledger.write(What.LIFE, orders.name)
    return Mortal(
        ledger=ledger,
        name=orders.name,
        chance=orders.deadly,
        random=random.Random(f"{orders.name} {orders.seed} {lives}"),
    )
