"""A `/mirror/v1/socket` that a test plays: it welcomes hosts, acknowledges and keeps their frames.

async with open_door() as door:
    …                                     # a host program that is told door.url
    await door.until("windows")
    await door.paste(claude, "hello", send_id=1)
    await door.until("paste.done", send_id=1)
"""

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio
import trio_websocket

from tests.support.claude_pane import ClaudePane
from tests.support.waiting import until

TOKEN = "mmh_secret-of-the-test"
Frame = dict[str, Any]


@attrs.define(eq=False)
class MirrorDoor:
    """The server's end; `frames` are all that came, each with the number of its `connection`."""

    url: str = ""
    frames: list[Frame] = attrs.field(factory=list)
    greets: bool = True
    acknowledges: Callable[[Frame], bool] = lambda _: True
    refuses: int | None = None
    heartbeat_seconds: float = 15
    sockets: list[trio_websocket.WebSocketConnection] = attrs.field(factory=list)
    tokens: list[bytes] = attrs.field(factory=list)

    async def answer(self, request: trio_websocket.WebSocketRequest) -> None:
        """Serve one connection."""
        headers = dict(request.headers)
        self.tokens.append(headers.get(b"authorization", b""))
        assert request.path == "/mirror/v1/socket"
        if self.refuses is not None:
            await request.reject(self.refuses)
            return
        socket = await request.accept()
        self.sockets.append(socket)
        number = len(self.sockets)
        with contextlib.suppress(trio_websocket.ConnectionClosed):
            while True:
                frame = json.loads(await socket.get_message())
                self.frames.append({**frame, "connection": number})
                if frame["type"] == "hello" and self.greets:
                    await self.send(
                        "welcome", host_id=1, name="box", send_queue_idle_seconds=30,
                        heartbeat_seconds=self.heartbeat_seconds,
                    )  # fmt: skip
                if "seq" in frame and self.acknowledges(frame):
                    await self.send("ack", seq=frame["seq"])

    async def send(self, kind: str, **members: object) -> None:
        """Send a frame on the newest connection."""
        await self.sockets[-1].send_message(json.dumps({"type": kind, **members}))

    async def close(self, code: int = 1001, reason: str = "") -> None:
        """Close the newest connection."""
        await self.sockets[-1].aclose(code, reason)

    def seen(self, kind: str, **members: object) -> list[Frame]:
        """The frames of this type with these members."""
        wanted = {"type": kind, **members}
        return [frame for frame in self.frames if wanted.items() <= frame.items()]

    async def until(self, kind: str, *, seconds: float = 10, **members: object) -> Frame:
        """Wait for such a frame, and return the newest."""
        found = await until(lambda: self.seen(kind, **members), seconds)
        return found[-1]

    async def until_count(self, kind: str, count: int, *, seconds: float = 10) -> None:
        """Wait until so many frames of this type came."""
        await until(lambda: len(self.seen(kind)) >= count, seconds)

    def pane(self, pane: str) -> Frame:
        """The pane in the newest connection's newest list of windows; empty when it is not there.

        What a program of before said may be read after the one that came in its place has begun.
        """
        lists = self.seen("windows", connection=len(self.sockets))
        for window in lists[-1]["windows"] if lists else []:
            for each in window["panes"]:
                if each["pane"] == pane:
                    of_it = {name: window[name] for name in ("window", "title", "label")}
                    return {**each, **of_it}
        return {}

    async def until_shown(
        self, claude: ClaudePane, state: str = "idle", *, seconds: float = 10
    ) -> Frame:
        """Wait until the newest list shows the session in this state, and return its pane."""

        def shown() -> Frame | None:
            pane = self.pane(claude.pane)
            wanted = {"state": state, "claude_session": claude.session_id}
            return pane if wanted.items() <= pane.items() else None

        return await until(shown, seconds) or {}

    async def paste(
        self, claude: ClaudePane, text: str, *, send_id: int, **changes: object
    ) -> None:
        """Ask for a text to be typed into the session."""
        given: dict[str, object] = {
            "send_id": send_id,
            "window": claude.window,
            "pane": claude.pane,
            "claude_session": claude.session_id,
            "text": text,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "proof_seconds": 10,
        }
        await self.send("paste", **given | changes)


@asynccontextmanager
async def open_door() -> AsyncIterator[MirrorDoor]:
    """Open the door on a port of its own, and close it with all that came in."""
    door = MirrorDoor()
    async with trio.open_nursery() as nursery:
        serve = partial(
            trio_websocket.serve_websocket, door.answer, "127.0.0.1", 0, ssl_context=None
        )
        server: trio_websocket.WebSocketServer = await nursery.start(serve)
        door.url = f"http://127.0.0.1:{server.port}"
        yield door
        nursery.cancel_scope.cancel()
