"""A light agent: the gateway's frames over a plain socket, and `reply_draft` by one POST to /mcp.

It answers each turn with one draft and ends it. The WebSocket is as much of RFC 6455 as our server
speaks: whole text frames, pings, closes.
"""

import base64
import json
import os
import re
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from bench.client import Connection, Incoming

_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_MESSAGE_ID = re.compile(r"^message:(\d+):")
_MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@attrs.frozen
class FrameSocket:
    """A WebSocket after its handshake, frame by frame; a client masks what it sends."""

    stream: trio.SocketStream
    incoming: Incoming

    @classmethod
    @asynccontextmanager
    async def open(
        cls, port: int, token: str, path: str = "/agent/v1/socket"
    ) -> "AsyncIterator[FrameSocket]":
        """Connect to the agent gateway, or to the socket at `path`, on the loopback."""
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            socket = cls(stream, Incoming(stream))
            key = base64.b64encode(os.urandom(16)).decode()
            lines = [
                f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket",
                "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
                f"Authorization: Bearer {token}", "", "",
            ]  # fmt: skip
            await stream.send_all("\r\n".join(lines).encode())
            head = await socket.incoming.until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101"), head
            yield socket

    async def send(self, **frame: object) -> None:
        """Send one JSON frame."""
        await self._write(_TEXT, json.dumps(frame).encode())

    async def receive(self) -> dict[str, object]:
        """The next JSON frame; raises ConnectionError when the server ends the connection."""
        while True:
            kind, payload = await self._read()
            if kind == _TEXT:
                frame: dict[str, object] = json.loads(payload)
                return frame
            if kind == _PING:
                await self._write(_PONG, payload)
            elif kind == _CLOSE:
                raise ConnectionError(f"the server closed the socket: {payload!r}")

    async def _read(self) -> tuple[int, bytes]:
        first, second = await self.incoming.take(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self.incoming.take(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.incoming.take(8))
        return first & 0x0F, await self.incoming.take(length)

    async def _write(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        head = (
            struct.pack("!BB", 0x80 | kind, 0x80 | size)
            if size < 126
            else struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
        )
        # The mask is all zeroes, which RFC 6455 lets a client choose and which costs nothing.
        await self.stream.send_all(head + bytes(4) + payload)


async def serve_turns(
    port: int,
    token: str,
    reply: str,
    filed: Callable[[int, int], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer every turn until cancelled; `filed(message_id, draft_id)` hears of each draft.

    Started once the server has welcomed the agent: a message that is posted earlier stays queued.
    """
    async with FrameSocket.open(port, token) as socket, Connection.open(port) as tools:
        while True:
            frame = await socket.receive()
            match frame["type"]:
                case "welcome":
                    task_status.started()
                case "ping":
                    await socket.send(type="pong")
                case "turn":
                    turn_id = str(frame["turn_id"])
                    found = _MESSAGE_ID.match(turn_id)
                    assert found is not None, frame
                    message_id = int(found[1])
                    await socket.send(type="turn.started", turn_id=turn_id)
                    draft_id = await reply_draft(tools, token, message_id, reply)
                    await socket.send(type="turn.done", turn_id=turn_id, text="drafted")
                    filed(message_id, draft_id)


async def reply_draft(tools: Connection, token: str, message_id: int, reply: str) -> int:
    """Call the tool, as one stateless request; the draft's id."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "reply_draft", "arguments": {"message_id": message_id, "body": reply}},
    }
    answer = await tools.ask("POST", "/mcp", token=token, body=call, headers=_MCP)
    assert answer.status == 200, answer
    text = answer.body.decode()
    data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
    result = json.loads(data[-1] if data else text)["result"]
    assert not result.get("isError"), result
    draft_id: int = result["structuredContent"]["draft_id"]
    return draft_id
