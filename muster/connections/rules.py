"""How the connection of a client ends."""

import enum


class BadFrame(Exception):
    """The client sent a frame of a known type that is not of its shape; the socket closes 4400."""


class Farewell(enum.Enum):
    """Why muster ends a client's connection."""

    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"
    UNAUTHORIZED = "unauthorized"
