"""Ports of the loopback for servers that are started, and killed, by us."""

import errno
import random
import socket

# Below the ports that clients get: one that looks for a dead server there could meet itself.
PORTS = (20_000, 30_000)
TRIES_MAX = 100


def free_port() -> int:
    """A port that nobody has now; OSError when none is found."""
    for _ in range(TRIES_MAX):
        port = random.randrange(*PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(errno.EADDRINUSE, "no port is free")
