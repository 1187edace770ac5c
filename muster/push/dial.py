"""The one place of the server that calls another machine: the address of a device, and no other.

Plugins and agents call the server, it never calls them (plugins: "Two ways in"). What is called
here is what an owner typed or their browser subscribed with, checked by rules/devices.py. A
redirect is not followed, no proxy or password is taken from the environment, of an answer only the
status and Retry-After are looked at, and nothing of it but the status is shown to anybody: so an
address inside somebody's network tells nobody what answers there.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import trio

from muster.push.rules.deliveries import Answer, Answered, Unanswered
from muster.push.sinks import Outgoing

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 20.0  # for the whole of it, well below the lease
BODY_BYTES_MAX: Final = 4096
CONNECTIONS_MAX: Final = 16
_TOO_SLOW: Final = f"it did not answer within {ANSWER_SECONDS:g} s"


class Dialler:
    """Sends requests to devices."""

    def __init__(self, client: httpx2.AsyncClient, answer_seconds: float) -> None:
        self._client = client
        self._answer_seconds = answer_seconds

    async def send(self, outgoing: Outgoing) -> Answer:
        """Send a request once; what goes wrong on the way is Unanswered."""
        with trio.move_on_after(self._answer_seconds):
            return await self._send(outgoing)
        return Unanswered(reason=_TOO_SLOW)

    async def _send(self, outgoing: Outgoing) -> Answer:
        try:
            async with self._client.stream(
                outgoing.method,
                outgoing.url,
                headers=dict(outgoing.headers),
                content=outgoing.body,
            ) as response:
                await _read_a_little(response)
                return Answered(
                    status=response.status_code,
                    retry_after_seconds=_retry_after(response.headers.get("retry-after", "")),
                )
        except httpx2.ConnectError:
            return Unanswered(reason="nobody could be reached there")
        except httpx2.TimeoutException:
            return Unanswered(reason=_TOO_SLOW)
        except UnicodeError:
            # A host with an empty or long label: the resolver does not even ask for it.
            return Unanswered(reason="there is no such host")
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            return Unanswered(reason="the connection broke before it answered")


@asynccontextmanager
async def open_dialler(answer_seconds: float = ANSWER_SECONDS) -> AsyncIterator[Dialler]:
    """A dialler for the length of the block."""
    # Reading the certificates of the system takes 30 ms.
    trust = await trio.to_thread.run_sync(ssl.create_default_context)
    async with httpx2.AsyncClient(
        verify=trust,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(answer_seconds, connect=CONNECT_SECONDS),
        limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=30),
        headers={"User-Agent": "muster", "Accept-Encoding": "identity"},
    ) as client:
        yield Dialler(client, answer_seconds)


async def _read_a_little(response: httpx2.Response) -> None:
    """Read a short body, so that the connection serves again; any other ends with it, unread."""
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and len(length) < 6 and int(length) <= BODY_BYTES_MAX:
        await response.aread()


def _retry_after(text: str) -> int | None:
    """The seconds of Retry-After; a date is as good as none, and the own backoff holds."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
