"""Why a connection did not come about is said once, plainly, by each client."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from muster.clients.dial import converse
from muster.clients.mail.imap_check import check_imap
from muster.clients.mail.settings import FromImap, Login, MailServer, Security, ToSmtp
from muster.clients.mail.smtp_check import check_smtp
from muster.clients.plugin import PluginClient, UnreachableError
from muster.clients.reasons import why_unconnected
from tests.support.loopback import serving
from tests.support.model_protocols import OPENAI
from tests.support.model_stage import Stage, stage

Told = Callable[[str, int], Awaitable[str]]


def account(host: str, port: int) -> MailServer:
    """A server with a login."""
    login = Login(user="ada", password="open")
    return MailServer(host=host, port=port, security=Security.TLS, login=login)


async def tell_smtp(host: str, port: int) -> str:
    """What the check says of replies."""
    return (await check_smtp(ToSmtp(server=account(host, port))))[-1].sentence


async def tell_imap(host: str, port: int) -> str:
    """What the check says of an account."""
    return (await check_imap(FromImap(server=account(host, port))))[-1].sentence


async def tell_muster(host: str, port: int) -> str:
    """What a plugin says of muster."""
    async with PluginClient(f"http://{host}:{port}", "mpl_x") as client:
        with pytest.raises(UnreachableError) as raised:
            await client.knock()
    return str(raised.value)


async def tell_gateway(host: str, port: int) -> str:
    """What a runner says of muster."""

    async def serve(_socket: object) -> object:
        raise AssertionError("nothing to serve")

    closed = await converse(f"ws://{host}:{port}/", "mag_x", None, serve)  # type: ignore[arg-type]
    return closed.reason


CLIENTS = pytest.mark.parametrize("tell", [tell_smtp, tell_imap, tell_muster, tell_gateway])


async def unused_port() -> int:
    """A port where nobody listens any more."""

    async def nothing(_stream: trio.SocketStream) -> None:
        """Nobody comes."""

    async with serving(nothing) as port:
        return port


@CLIENTS
async def test_nobody_listens(tell: Told) -> None:
    """A refused connection is called one, without the sentences that libraries wrap it in."""
    told = await tell("127.0.0.1", await unused_port())
    assert told.rstrip(".").endswith(": connection refused")
    assert "attempt" not in told
    assert "Error" not in told


@CLIENTS
async def test_a_name_that_is_none(tell: Told) -> None:
    """A name that no name server can know is called unknown."""
    told = await tell("nowhere.invalid", 9)
    assert told.rstrip(".").endswith((": the name is unknown", "resolution)"))


async def test_a_model_that_nobody_serves(tmp_path: Path) -> None:
    """A turn whose model can't be reached says why."""
    port = await unused_port()
    on: Stage
    async with stage(OPENAI, tmp_path) as on:
        on.backend.model.base_url = f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
        with pytest.raises(Exception, match="failed: connection refused"):
            await on.turn("go")


async def test_a_port_of_plain_text_is_no_tls() -> None:
    """A plugin that is told https:// for a port of http:// is told so."""

    async def greet(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with (
        serving(greet) as port,
        PluginClient(f"https://127.0.0.1:{port}", "mpl_x") as client,
    ):
        with pytest.raises(UnreachableError, match="does not begin with TLS"):
            await client.knock()


def test_what_says_nothing_is_no_reason() -> None:
    """An error that holds no word of the system's has no reason to be told."""
    assert why_unconnected(trio.TooSlowError()) is None
    assert why_unconnected(TimeoutError(110, "x")) == "timed out"
