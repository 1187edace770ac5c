"""TXT records by DNS, within a bound of time; no answer is an answer too, and never an error.

One that asks several servers of the system, or one server of the settings. Answers are kept for
as long as they say, at most 500 of them. A truncated answer is asked for again over TCP.
"""

from typing import Protocol

import attrs
import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver
from dns.rdtypes.ANY.TXT import TXT

from muster.clients.mail.findings import Finding, fault, well
from muster.clients.mail.verify.proof import Doubt

LOOKUP_SECONDS_MAX = 8.0
TRY_SECONDS = 2.0
KEPT_MAX = 500
DNS_PORT = 53


class Resolver(Protocol):
    """Finds TXT records."""

    async def find_txt(self, name: str) -> tuple[bytes, ...] | Doubt:
        """The records of an absolute name, none when there are none; never raises."""
        ...


@attrs.frozen(kw_only=True)
class DnsResolver:
    """Asks the servers of `asker`, for `seconds_max` a name; `shown` says for people which."""

    shown: str
    asker: dns.asyncresolver.Resolver
    seconds_max: float = LOOKUP_SECONDS_MAX

    async def find_txt(self, name: str) -> tuple[bytes, ...] | Doubt:
        """The records, each with its strings joined; a Doubt when no server gave an answer."""
        try:
            answer = await self.asker.resolve(
                dns.name.from_text(name),
                "TXT",
                backend=dns.asyncbackend.get_backend("trio"),
                lifetime=self.seconds_max,
                raise_on_no_answer=False,
            )
        except dns.resolver.NXDOMAIN:
            return ()
        except (dns.exception.DNSException, OSError, ValueError) as error:
            return Doubt(reason=f"DNS gave no answer about {name} ({_kind(error)})")
        records = answer.rrset or ()
        return tuple(b"".join(record.strings) for record in records if isinstance(record, TXT))


@attrs.frozen(kw_only=True)
class NoResolver:
    """Stands for DNS on a machine that names no server for it."""

    async def find_txt(self, name: str) -> tuple[bytes, ...] | Doubt:
        """Find nothing, and say why."""
        return Doubt(reason=f"DNS was not asked about {name}: this machine names no server for it")


def system_resolver() -> Resolver:
    """The DNS of this machine, as its own settings have it."""
    try:
        asker = dns.asyncresolver.Resolver()
    except (dns.exception.DNSException, OSError, ValueError):
        return NoResolver()
    servers = ", ".join(str(server) for server in asker.nameservers)
    return DnsResolver(shown=servers or "no server", asker=_bounded(asker))


def resolver_at(text: str) -> Resolver:
    """The DNS server at `HOST` or `HOST:PORT`; HOST is an IP address, IPv6 in brackets.

    Raises ValueError for anything else.
    """
    host, port = _host_and_port(text)
    asker = dns.asyncresolver.Resolver(configure=False)
    asker.port = port
    asker.nameservers = [host]
    return DnsResolver(shown=text, asker=_bounded(asker))


async def check_dns(resolver: Resolver) -> list[Finding]:
    """Whether DNS answers at all: without it no signature can be checked."""
    found = await resolver.find_txt(".")
    if isinstance(found, Doubt):
        sentence = f"{found.reason}; no sender can be proven by a signature."
        return [fault("dns", sentence)]
    where = f" at {resolver.shown}" if isinstance(resolver, DnsResolver) else ""
    return [well("dns", f"DNS{where} answers.")]


def _bounded(asker: dns.asyncresolver.Resolver) -> dns.asyncresolver.Resolver:
    asker.timeout = TRY_SECONDS
    asker.cache = dns.resolver.LRUCache(KEPT_MAX)
    return asker


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DNS_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"an IPv6 address of a DNS server stands in brackets: {text!r}")
    if not dns.inet.is_address(host):
        raise ValueError(f"a DNS server is given by its IP address: {text!r}")
    if not (port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= 65535):
        raise ValueError(f"not the port of a DNS server: {text!r}")
    return host, int(port)


def _kind(error: Exception) -> str:
    match error:
        case dns.exception.Timeout():
            return "in time"
        case dns.resolver.NoNameservers():
            return "every server failed"
        case OSError():
            return error.strerror or "the network failed"
        case _:
            return type(error).__name__
