"""A session's own way to muster: an MCP server on stdin and stdout, which Claude Code starts.

It has no tools of its own. What is listed and called goes to `/mirror/mcp` with this host's token
and the header `Muster-Pane`, by which muster knows the session; the answer comes back as it is.

While that cannot work (no pane, no token, no server) there is one tool, `muster_status`, which says
why: a server without tools would be silent. The server is then asked again now and then, and once
it answers the client is told that the list has changed.

Claude Code starts one for each session, so it is small: plain threads and http.client. Rejected:
the `mcp` package (a second to load), and Trio with httpx2 (four times the time of this, and half as
much memory again), for a program that forwards. A call is made once: when its answer is lost, the
tool may have run, and the answer says so.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, BinaryIO, Final
from urllib.parse import SplitResult

PATH: Final = "/mirror/mcp"
PROTOCOL_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
LINE_BYTES_MAX: Final = 4 << 20
ANSWER_BYTES_MAX: Final = 16 << 20  # 50 drafts, each byte of them escaped twice
CALLS_MAX: Final = 8
"""How many requests are in hand at once; further ones wait on stdin."""

ANSWER_SECONDS: Final = 60.0
"""How long the server may be silent in one answer; its stream has a comment every 15 seconds."""

FINISH_SECONDS: Final = 3.0
AGAIN_SECONDS_FIRST: Final = 2.0
AGAIN_SECONDS_MAX: Final = 60.0
STATUS: Final = "muster_status"

_PARSE, _REQUEST, _METHOD = -32700, -32600, -32601


class NoAnswer(Exception):
    """Why muster gave no answer: a sentence for whoever called a tool."""


class Door:
    """muster's door for this session; `trouble` is why it can't be knocked at."""

    def __init__(
        self, url: SplitResult | None, *, token: str | None, pane: str | None, trouble: str | None
    ) -> None:
        self._url = url
        self._token = token
        self._pane = pane
        self._trouble = trouble

    @property
    def is_hopeless(self) -> bool:
        """Whether asking again can't help."""
        return self._trouble is not None

    def ask(self, method: str, params: object) -> dict[str, Any]:
        """One request of JSON-RPC and its answer, with `result` or `error`; raises NoAnswer."""
        if self._trouble is not None or self._url is None:
            raise NoAnswer(self._trouble or "No address of muster is set.")
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        if params is None:
            del asked["params"]
        connection = _connection(self._url)
        try:
            connection.connect()
        except OSError as error:
            raise NoAnswer(
                f"muster at {self._url.netloc} can't be reached: {_why(error)}."
            ) from error
        try:
            connection.request(
                "POST",
                f"{self._url.path.rstrip('/')}{PATH}",
                json.dumps(asked).encode(),
                {
                    "Accept": "application/json, text/event-stream",
                    "Authorization": f"Bearer {self._token}",
                    "Content-Type": "application/json",
                    "Connection": "close",
                    "MCP-Protocol-Version": PROTOCOL_VERSIONS[0],
                    "Muster-Pane": str(self._pane),
                },
            )
            with connection.getresponse() as response:
                return _read_answer(response)
        except (OSError, HTTPException, ValueError) as error:
            said = f"muster's answer to {method} was lost; it may have been carried out."
            raise NoAnswer(said) from error
        finally:
            connection.close()


class McpServer:
    """Serves one client; `say` writes one line of bytes."""

    def __init__(self, door: Door, say: Callable[[bytes], object]) -> None:
        self._door = door
        self._say = say
        self._saying = threading.Lock()
        self._in_hand = threading.BoundedSemaphore(CALLS_MAX)
        self._asking_again = False
        self._over = threading.Event()

    def serve(self, lines: BinaryIO) -> None:
        """Answer what comes until there is no more."""
        try:
            while line := lines.readline(LINE_BYTES_MAX + 1):
                if len(line) > LINE_BYTES_MAX:
                    return
                if line.strip():
                    self._take(line)
        finally:
            self._over.set()
            self._finish()

    def _finish(self) -> None:
        """Let what is in hand end, for a while: whoever asked may still read."""
        deadline = time.monotonic() + FINISH_SECONDS
        for _ in range(CALLS_MAX):
            if not self._in_hand.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, _PARSE, "not JSON")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            # An answer to something that this server never asks.
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                self._refuse(None, _REQUEST, "no request of JSON-RPC")
            return
        if "id" not in message:
            return
        self._in_hand.acquire()
        work = threading.Thread(target=self._answer, args=(message,), daemon=True)
        work.start()

    def _answer(self, message: Mapping[str, Any]) -> None:
        try:
            self._answer_now(message["id"], message["method"], message.get("params"))
        finally:
            self._in_hand.release()

    def _answer_now(self, asked: object, method: str, params: Any) -> None:
        match method:
            case "initialize":
                self._tell(id=asked, result=_greeting(params))
            case "ping":
                self._tell(id=asked, result={})
            case "tools/list":
                self._list(asked, params)
            case "tools/call":
                self._call(asked, params)
            case _:
                self._refuse(asked, _METHOD, f"there is no {method[:100]} here")

    def _list(self, asked: object, params: object) -> None:
        try:
            self._forward(asked, "tools/list", params)
        except NoAnswer as trouble:
            self._tell(id=asked, result={"tools": [_status_tool(str(trouble))]})
            if not self._door.is_hopeless and not self._asking_again:
                self._asking_again = True
                threading.Thread(target=self._ask_again, daemon=True).start()

    def _call(self, asked: object, params: object) -> None:
        name = params.get("name") if isinstance(params, dict) else None
        try:
            if name == STATUS:
                self._door.ask("tools/list", None)
                self._tell(id=asked, result=_text("muster can be reached.", is_error=False))
            else:
                self._forward(asked, "tools/call", params)
        except NoAnswer as trouble:
            self._tell(id=asked, result=_text(str(trouble), is_error=True))

    def _forward(self, asked: object, method: str, params: object) -> None:
        answer = self._door.ask(method, params)
        kept = {name: answer[name] for name in ("result", "error") if name in answer}
        self._tell(id=asked, **kept)

    def _ask_again(self) -> None:
        """Ask for the tools until they come, and say that they are there."""
        seconds = AGAIN_SECONDS_FIRST
        while not self._over.wait(seconds):
            seconds = min(2 * seconds, AGAIN_SECONDS_MAX)
            try:
                self._door.ask("tools/list", None)
            except NoAnswer:
                continue
            self._asking_again = False
            self._tell(method="notifications/tools/list_changed")
            return

    def _refuse(self, asked: object, code: int, sentence: str) -> None:
        self._tell(id=asked, error={"code": code, "message": sentence})

    def _tell(self, **members: object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"
        with self._saying:
            try:
                self._say(line)
            except OSError:
                # The client is gone; its end of stdin ends this program.
                self._over.set()


def _connection(url: SplitResult) -> HTTPConnection:
    assert url.hostname is not None, "the address was checked"
    if url.scheme != "https":
        return HTTPConnection(url.hostname, url.port or 80, timeout=ANSWER_SECONDS)
    from http.client import HTTPSConnection  # noqa: PLC0415 - TLS takes memory that few need

    return HTTPSConnection(url.hostname, url.port or 443, timeout=ANSWER_SECONDS)


def _read_answer(response: HTTPResponse) -> dict[str, Any]:
    body = response.read(ANSWER_BYTES_MAX + 1)
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError("too long")
    if response.status != 200:
        raise NoAnswer(_refusal(response.status, body))
    kind = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
    texts = _events(body) if kind == "text/event-stream" else [body]
    for text in texts:
        message = json.loads(text)
        if isinstance(message, dict) and message.get("id") == 1:
            return message
    raise ValueError("no answer in it")


def _events(body: bytes) -> list[bytes]:
    """The data of each event of a stream; all kinds of line ends, comments left out."""
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events: list[bytes] = []
    data: list[bytes] = []
    for line in [*lines, b""]:
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            events.append(b"\n".join(data))
            data = []
    return [event for event in events if event.strip()]


def _refusal(status: int, body: bytes) -> str:
    try:
        sentence = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        sentence = None
    if isinstance(sentence, str):
        return f"muster says no: {sentence[:500]}"
    if status == 401:
        return "muster refuses this host's token: it is unknown or was revoked."
    if status == 404:
        return "muster has no door for mirrored sessions: it is too old, or that is switched off."
    return f"muster answered HTTP {status}."


def _why(error: OSError) -> str:
    from muster.clients.reasons import why_unconnected  # noqa: PLC0415 - it loads TLS

    return why_unconnected(error) or str(error) or type(error).__name__


def _greeting(params: Any) -> dict[str, Any]:
    asked = params.get("protocolVersion") if isinstance(params, dict) else None
    return {
        "protocolVersion": asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "muster", "version": "1"},
    }


def _status_tool(trouble: str) -> dict[str, Any]:
    return {
        "name": STATUS,
        "description": f"Says why muster's tools are missing. By now: {trouble}",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def _text(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
