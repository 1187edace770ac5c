"""How large a storm is: what the command line asks for, and what follows from it."""

import attrs

from bench.chaos.parties import MESSAGES_PER_PLUGIN

STOP_SECONDS = 125.0  # longer than the lease of a claim
KILL_SECONDS = 5.0  # from one kill to the next, with the server's start


@attrs.frozen(kw_only=True)
class Form:
    """A storm's size. `shared` messages are posted by all `producers`, each of them every one."""

    kills: int
    messages: int
    seed: int
    owners: int
    sdk_processes: int
    raw_processes: int
    active: int  # plugins of one process that post at one time
    producers: int
    shared: int
    tricklers: int
    deadly: float
    stop_seconds: float
    minutes: float | None  # the nemeses end by then

    @property
    def load_seconds(self) -> float:
        """How long the load should take: as long as the kills, and not past the minutes."""
        planned = max(20.0, self.kills * KILL_SECONDS * 0.8)
        return planned if self.minutes is None else min(planned, self.minutes * 60)

    @property
    def every_seconds(self) -> float:
        """Between two posts of one plugin, on average."""
        plugins = -(-self.messages // MESSAGES_PER_PLUGIN)
        slots = self.active * (self.sdk_processes + self.raw_processes)
        rounds = -(-plugins // slots)
        return self.load_seconds / (rounds * MESSAGES_PER_PLUGIN)


def choose_form(*, kills: int, messages: int, seed: int, minutes: float | None) -> Form:
    """The form for so much: from 100 kills on it is the long one."""
    large = kills >= 100
    return Form(
        kills=kills,
        messages=messages,
        seed=seed,
        owners=20 if large else 3,
        sdk_processes=5 if large else 1,
        raw_processes=3 if large else 1,
        active=4,
        producers=32 if large else 8,
        shared=1000 if large else 100,
        tricklers=20 if large else 6,
        deadly=0.002 if large else 0.01,
        stop_seconds=STOP_SECONDS if large else 0.0,
        minutes=minutes,
    )
