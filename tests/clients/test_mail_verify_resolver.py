"""The DNS that keys are asked from: which server, what it may answer, and what check_dns tells."""

from collections.abc import AsyncIterator

import attrs
import pytest

from muster.clients.mail.findings import Verdict
from muster.clients.mail.verify.proof import Doubt
from muster.clients.mail.verify.resolver import (
    DnsResolver,
    NoResolver,
    check_dns,
    resolver_at,
    system_resolver,
)
from tests.support.dns_server import DnsServer, Trouble, dns_server


@pytest.fixture
async def dns() -> AsyncIterator[DnsServer]:
    """Yield a DNS that knows nothing yet."""
    async with dns_server() as server:
        yield server


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.1", "192.0.2.1", 53),
        ("192.0.2.1:5353", "192.0.2.1", 5353),
        ("[2001:db8::1]", "2001:db8::1", 53),
        ("[2001:db8::1]:5353", "2001:db8::1", 5353),
    ],
)
def test_a_server_is_an_address_and_a_port(text: str, host: str, port: int) -> None:
    """HOST or HOST:PORT says which server is asked, and it alone."""
    resolver = resolver_at(text)
    assert isinstance(resolver, DnsResolver)
    assert [str(server) for server in resolver.asker.nameservers] == [host]
    assert resolver.asker.port == port
    assert resolver.shown == text


@pytest.mark.parametrize(
    "text",
    ["", ":53", "dns.test", "dns.test:53", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:0", "1.2.3",
     "192.0.2.1:65536", "192.0.2.1:5353535353", "2001:db8::1", "[]", "[]:53", "192.0.2.1:٥٣"],
)  # fmt: skip
def test_what_is_no_server_is_said(text: str) -> None:
    """A name, a bare IPv6 address and a port that is none are wrong settings."""
    with pytest.raises(ValueError, match="DNS server"):
        resolver_at(text)


async def test_records_come_as_their_bytes(dns: DnsServer) -> None:
    """The strings of a record are joined, whatever bytes they have; a name without any has none."""
    long = b"v=DKIM1; p=" + b"A" * 600
    dns.put("long.test", long, b'"quoted\\" \xff;')
    dns.troubles["empty.test"] = Trouble.EMPTY
    resolver = dns.resolver()
    found = await resolver.find_txt("long.test.")
    assert isinstance(found, tuple)
    assert sorted(found) == sorted([long, b'"quoted\\" \xff;'])
    assert await resolver.find_txt("empty.test.") == ()
    assert await resolver.find_txt("nothing.test.") == ()


async def test_an_answer_is_kept_for_as_long_as_it_says(dns: DnsServer) -> None:
    """The same key is asked for once for a backlog of mail."""
    dns.put("kept.test", b"x")
    resolver = dns.resolver()
    for _ in range(3):
        assert await resolver.find_txt("kept.test.") == (b"x",)
    assert dns.asked == ["kept.test"]


@pytest.mark.parametrize(
    "name", ["x" * 64 + ".test.", ".".join(["x" * 60] * 5) + ".", "a..b.", "\ud800."]
)
async def test_a_name_that_is_none_is_a_doubt(dns: DnsServer, name: str) -> None:
    """Names that DNS can't have are no error."""
    assert isinstance(await dns.resolver().find_txt(name), Doubt)


async def test_check_dns_says_that_it_answers(dns: DnsServer) -> None:
    """A server that answers anything at all is well."""
    assert [
        (one.verdict, one.subject, one.sentence) for one in await check_dns(dns.resolver())
    ] == [(Verdict.WELL, "dns", f"DNS at {dns.address} answers.")]


async def test_check_dns_says_what_is_wrong(dns: DnsServer) -> None:
    """A server that fails, and a machine without one, are faults that say what follows."""
    dns.troubles["."] = Trouble.FAILING
    for resolver in (dns.resolver(), NoResolver()):
        findings = await check_dns(resolver)
        assert [one.verdict for one in findings] == [Verdict.FAULT]
        assert "no sender can be proven by a signature" in findings[0].sentence


async def test_a_port_where_nobody_listens() -> None:
    """A wrong port is a doubt within the time that a lookup has, and never an error."""
    async with dns_server() as server:
        gone = server.resolver()
    assert isinstance(gone, DnsResolver)
    found = await attrs.evolve(gone, seconds_max=0.5).find_txt("x.test.")
    assert isinstance(found, Doubt)
    assert "in time" in found.reason


def test_the_system_has_some_resolver() -> None:
    """The machine's own DNS can be asked for, whether it names a server or not."""
    assert isinstance(system_resolver(), DnsResolver | NoResolver)
