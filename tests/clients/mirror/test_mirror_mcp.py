"""A session's own way to muster, as Claude Code starts it: a program on two pipes."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from muster.clients.mirror import mcp
from muster.clients.mirror.mcp import Door, McpServer, NoAnswer
from muster.clients.urls import read_http_url
from tests.support.loopback import serving
from tests.support.mcp_bridge import TOKEN, started
from tests.support.mcp_server import mcp_app, serving_app
from tests.support.waiting import until

CPU_SECONDS_MAX = 0.5
MEGABYTES_MAX = 40
HEAVY = ("trio", "httpx2", "mcp", "msgspec", "asyncio", "psycopg")


def check(path: str, headers: dict[bytes, bytes]) -> None:
    """Only this host and this pane are let in."""
    assert path == "/mirror/mcp"
    assert headers[b"authorization"] == f"Bearer {TOKEN}".encode()
    assert headers[b"muster-pane"] == b"%7"


@pytest.mark.parametrize("json_response", [True, False])
async def test_tools_of_muster_are_the_sessions(json_response: bool) -> None:
    """What is listed and called at the door comes back as it is, with its noes and faults."""
    async with (
        mcp_app(check, json_response=json_response) as app,
        serving_app(app) as url,
        started("--url", f"{url}/") as client,
    ):
        hello = await client.ask("initialize", protocolVersion="2025-06-18")
        assert hello["result"]["protocolVersion"] == "2025-06-18"
        assert hello["result"]["serverInfo"]["name"] == "muster"
        await client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert await client.tools() == ["reply_draft"]
        second = await client.ask("tools/list", "two", cursor="2")
        assert [tool["name"] for tool in second["result"]["tools"]] == ["look"]
        assert await client.call("reply_draft", body="grüße") == ("got\ngrüße", False)
        assert (await client.call("reply_draft", body="no"))[1]
        assert "error" in await client.ask("tools/call", name="launch", arguments={})


async def test_calls_do_not_wait_for_each_other() -> None:
    """A call that takes its time holds up no other one."""
    both = trio.Event()
    asked: list[int] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        body = json.loads((await receive())["body"])
        asked.append(body["id"])
        if len(asked) == 2:
            both.set()
        await both.wait()
        answer = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": []}})
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer.encode()})

    async with serving_app(app) as url, started("--url", url) as client:
        for number in (1, 2):
            await client.send({"jsonrpc": "2.0", "id": number, "method": "tools/list"})
        assert {(await client.next())["id"], (await client.next())["id"]} == {1, 2}


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TMUX_PANE": ""}, "no pane of tmux"),
        ({"TMUX_PANE": "7"}, "no pane of tmux"),
        ({"MUSTER_MIRROR_TOKEN": ""}, "token is missing"),
        ({"MUSTER_MIRROR_TOKEN": "mag_" + "0" * 43}, "token is missing"),
        ({"MUSTER_URL": "nowhere"}, "The address of muster"),
        ({"MUSTER_URL": "http://127.0.0.1:1"}, "can't be reached: connection refused"),
    ],
)
async def test_what_is_missing_is_said_by_a_tool(environ: dict[str, str], told: str) -> None:
    """Without pane, token or server there is one tool, which says why, and every call says it."""
    async with started(**environ) as client:
        assert await client.tools() == ["muster_status"]
        listed = (await client.ask("tools/list"))["result"]["tools"][0]
        assert told in listed["description"]
        for name in ("muster_status", "route_reply"):
            text, is_error = await client.call(name)
            assert is_error
            assert told in text
            assert TOKEN not in text


async def test_tools_come_once_the_server_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that comes back is noticed, and the client is told that the list changed."""
    monkeypatch.setattr(mcp, "AGAIN_SECONDS_FIRST", 0.05)
    said: list[dict[str, Any]] = []
    ours, theirs = os.pipe()
    async with serving(_hang_up) as port:
        url = read_http_url(f"http://127.0.0.1:{port}")
    door = Door(url, token=TOKEN, pane="%7", trouble=None)
    server = McpServer(door, lambda line: said.append(json.loads(line)))
    with os.fdopen(ours, "rb") as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, server.serve, lines)
            os.write(theirs, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n')
            await until(lambda: len(said) == 1)
            assert said[0]["result"]["tools"][0]["name"] == "muster_status"
            async with (
                mcp_app(check, json_response=True) as app,
                serving_app(app, port=port),
            ):
                await until(lambda: len(said) == 2)
            os.close(theirs)
    assert said[1] == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b"", "refuses this host's token"),
        (404, b"<html>", "no door for mirrored sessions"),
        (403, b'{"error": "This pane shows no session.", "code": "x"}', "pane shows no session"),
        (503, b"[]", "HTTP 503"),
        (200, b"hello", "may have been carried out"),
        (200, b"[]", "may have been carried out"),
        (200, b'{"id": 2, "result": {}}', "may have been carried out"),
        (200, b" " * (mcp.ANSWER_BYTES_MAX + 1), "may have been carried out"),
    ],
)
async def test_what_is_no_answer_is_said(status: int, body: bytes, told: str) -> None:
    """Whatever the server answers instead, the caller reads a sentence about it."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async with serving_app(app) as url:
        door = Door(read_http_url(url), token=TOKEN, pane="%7", trouble=None)
        with pytest.raises(NoAnswer, match=told):
            await trio.to_thread.run_sync(door.ask, "tools/call", {})


async def test_a_lost_answer_is_not_asked_for_again() -> None:
    """A connection that ends without an answer leaves open what happened; one call is made."""
    calls: list[bytes] = []

    async def hang_up(stream: trio.SocketStream) -> None:
        calls.append(bytes(await stream.receive_some()))
        await stream.aclose()

    async with serving(hang_up) as port:
        url = read_http_url(f"http://127.0.0.1:{port}")
        door = Door(url, token=TOKEN, pane="%7", trouble=None)
        with pytest.raises(NoAnswer, match="may have been carried out"):
            await trio.to_thread.run_sync(door.ask, "tools/call", {})
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", -32700),
        ("[" * 100_000, -32700),
        ("[]", -32600),
        ('{"jsonrpc": "2.0", "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
    ],
)
async def test_what_is_no_request_is_refused(line: str, code: int) -> None:
    """A line that is no request gets JSON-RPC's error, and the next one is answered."""
    async with started() as client:
        await client.send(line)
        assert (await client.next())["error"]["code"] == code
        await client.send('{"jsonrpc": "2.0", "id": 5, "result": {}}')
        await client.send('{"jsonrpc": "2.0", "method": "notifications/cancelled"}')
        assert (await client.ask("ping"))["result"] == {}


def test_it_is_small_and_quick(tmp_path: Path) -> None:
    """It loads nothing heavy: under half a second of processor time and 40 MB."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    check_loaded = (
        "import os, resource, sys\n"
        "from muster.__main__ import main\n"
        "def leave(code):\n"
        # Not the peak of getrusage, which begins with that of the program that started it.
        "    pages = int(open('/proc/self/statm').read().split()[1])\n"
        "    mega = pages * resource.getpagesize() >> 20\n"
        f"    loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    print(mega, loaded, file=sys.stderr, flush=True)\n"
        "    sys.exit(code)\n"
        "os._exit = leave\n"
        f"main(['mirror', 'mcp', '--token-file', {str(token)!r}])\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", check_loaded],
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n',
        env={**os.environ, "TMUX_PANE": "%1", "MUSTER_URL": "http://127.0.0.1:1"},
        capture_output=True,
        timeout=30,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    mega, loaded = done.stderr.split(b" ", 1)
    assert loaded == b"[]\n"
    assert int(mega) < MEGABYTES_MAX
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < CPU_SECONDS_MAX
    assert b"muster_status" in done.stdout


async def _hang_up(stream: trio.SocketStream) -> None:
    await stream.aclose()
