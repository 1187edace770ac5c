"""What a client process is told to do: a JSON file that it is given the path of.

It holds the tokens of its plugins, so it is 0600; a token is no argument of a process.
"""

import os
import sys
from pathlib import Path

import msgspec


class PluginOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin: it posts `count` messages, `name`-0 and so on, and sends what is approved."""

    name: str
    token: str
    count: int


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What one client process does; `deadly` is the chance of killing itself at each moment."""

    name: str
    port: int
    seed: int
    folder: str
    plugins: list[PluginOrder]
    active: int  # plugins that post at one time
    every_seconds: float  # between two posts of one of them, on average
    deadly: float
    producers: int = 0  # for the producers alone: how many post every message at once

    @property
    def ledger(self) -> Path:
        """Where it writes down what happens."""
        return Path(self.folder, f"{self.name}.ledger")

    @property
    def path(self) -> Path:
        """Where these orders lie."""
        return Path(self.folder, f"{self.name}.orders")

    def write(self) -> None:
        """Write them for the process."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(msgspec.json.encode(self))


def read_orders() -> Orders:
    """The orders of this process: its one argument."""
    return msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Orders)
