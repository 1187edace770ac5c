"""Clients that send a request byte by byte and never end it: its head, or its body."""

import random
from collections import Counter

import trio

BYTE_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
AGAIN_SECONDS = 1.0
LENGTH = 4000


async def trickle(port: int, token: str, chance: random.Random, *, seen: Counter[str]) -> None:
    """Do so again and again, until cancelled; `seen` counts how each attempt ended."""
    while True:
        slow_head = chance.random() < 0.5
        how = "head" if slow_head else "body"
        with trio.move_on_after(PATIENCE_SECONDS) as limit:
            try:
                ended = await _one(port, token, slow_head=slow_head)
            except OSError:
                ended = "not reached"
            except trio.BrokenResourceError:
                ended = "cut off"
            seen[f"slow {how}: {ended}"] += 1
        if limit.cancelled_caught:
            seen[f"slow {how}: left alone"] += 1
        await trio.sleep(AGAIN_SECONDS)


async def _one(port: int, token: str, *, slow_head: bool) -> str:
    head = (
        "POST /plugin/v1/messages HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {LENGTH}\r\n"
    ).encode()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(head if slow_head else head + b"\r\n")
        rest = b"X-Slow: " + b"a" * LENGTH if slow_head else b'{"body": "' + b"a" * LENGTH
        for number in range(LENGTH):
            await stream.send_all(rest[number : number + 1])
            with trio.move_on_after(BYTE_SECONDS):
                answer = await stream.receive_some()
                return f"answered {answer[9:12].decode('latin-1')}" if answer else "cut off"
    return "left alone"
