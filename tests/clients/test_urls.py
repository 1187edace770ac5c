"""Addresses as people set them, and what no error shows of them."""

import pytest

from muster.clients.agent.openai_chat import OpenAiModel
from muster.clients.dial import socket_url
from muster.clients.mail.imap import ImapConnection, ImapLostError
from muster.clients.mail.settings import Login, MailServer, Security
from muster.clients.plugin import PluginClient
from muster.clients.urls import HTTP, read_http_url, read_url
from muster.commands.mail_options import read_server

NO_ADDRESS = [
    "", "localhost", "ftp://localhost", "http://", "http://[::1", "http://localhost:0",
    "http://localhost:99999", "http://localhost:x", "http://two words", "http://a..test",
    f"http://{'a' * 64}.test", f"http://{'a.' * 127}test", "http://\u2100.test",
]  # fmt: skip


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_what_can_be_no_address_is_none(url: str) -> None:
    """An address without a host that can be looked up, or with a port that is none, is none."""
    assert read_url(url, HTTP) is None
    assert read_http_url(url) is None


@pytest.mark.parametrize(
    "url",
    ["http://localhost", "https://[::1]:8420/muster/", "http://müller.test:1", "http://a.test."],
)
def test_an_address_is_read(url: str) -> None:
    """Names, IPv6 and names beyond ASCII are addresses."""
    parts = read_http_url(url)
    assert parts is not None
    assert parts.geturl() == url


@pytest.mark.parametrize(
    "rest", ["ada:geheim@host", "ada:geheim\u2100@host", "ada:geheim@[host", "host/?key=geheim"]
)
def test_no_error_shows_what_an_address_holds(rest: str) -> None:
    """A user, a password and a query have no place in the URLs, and are in no error."""
    web, mail = f"http://{rest}", f"imaps://{rest}"
    for read in (
        lambda url: socket_url(url, "/socket"),
        lambda url: PluginClient(url, "mpl_token"),
        lambda url: OpenAiModel(model="m", base_url=url),
    ):
        with pytest.raises(ValueError, match="not an address like http") as told:
            read(web)
        assert "geheim" not in str(told.value)
    with pytest.raises(ValueError, match=r"^--imap (is|must)") as told:
        read_server(mail, "imap", tls=None, password="p")
    assert "geheim" not in str(told.value)


async def test_a_host_without_a_name_is_a_server_that_is_away() -> None:
    """A host that no name server can be asked about is told as any other that is not reached."""
    server = MailServer(
        host="a" * 64, port=993, security=Security.TLS, login=Login(user="ada", password="p")
    )
    with pytest.raises(ImapLostError, match="the name is unknown"):
        await ImapConnection.connect(server)
