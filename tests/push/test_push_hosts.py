"""Hosts that there cannot be: no device has one, and none stops what sends."""

import pytest

from muster.errors import Invalid
from muster.push.dial import open_dialler
from muster.push.rules.deliveries import Unanswered
from muster.push.rules.devices import check_url
from muster.push.sinks import Outgoing

NO_HOSTS = [
    "a..b",
    ".localhost",
    "localhost..",
    "a" * 64 + ".test",
    "a." * 150 + "test",
    "%61.test",
    "a%00b",
    "[v1.x]",
    "[::1]b",
    "[::1%25lo]",
    "[1::2::3]",
    "a,b",
    "*",
]


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_can_be_no_host_is_refused(host: str) -> None:
    """An address whose host nobody could resolve is no device's."""
    with pytest.raises(Invalid) as caught:
        check_url(f"https://{host}/push")
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    "host",
    ["a", "push.example.test", "a_b.test.", "10.0.0.1:8443", "[::1]:9", "xn--bcher-kva.test"],
)
def test_what_can_be_a_host_is_taken(host: str) -> None:
    """A name of any spelling that resolvers know, and an address, is as good as any."""
    assert check_url(f"https://{host}/push") == f"https://{host}/push"


async def test_a_host_that_cannot_be_is_not_reached() -> None:
    """A push to such a host, stored before it was refused, fails as one that nobody answers."""
    async with open_dialler(answer_seconds=3) as dialler:
        for host in NO_HOSTS[:4]:
            outgoing = Outgoing(method="POST", url=f"https://{host}/", headers={}, body=b"")
            assert isinstance(await dialler.send(outgoing), Unanswered), host
