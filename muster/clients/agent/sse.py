"""One streamed request to a model's provider over HTTP, and its server-sent events.

Why httpx2 and neither of the `openai` and `anthropic` libraries: both import asyncio, and on Trio
the former leaves four unfinished generators behind each answer, of which Trio complains (seen). A
request and its events are little code, the same for both providers, and one place says what each
fault of HTTP means. The libraries judge our requests and read our test server in the tests.

Leaving a stream early is done by a cancel, which unwinds httpx2's generators; breaking out of the
loop would leave them to the garbage collector.
"""

import codecs
import io
import math
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

import attrs
import httpx2
import trio

from muster.clients.agent.backend import TurnError
from muster.clients.agent.model import TooLong, TryAgain
from muster.clients.backoff import retry_after_seconds
from muster.clients.reasons import why_unconnected

STREAM_BYTES_MAX = 16 << 20
ERROR_BYTES_MAX = 64 * 1024
# A model may think for minutes before its first word; the turn's deadline bounds it all.
TIMEOUT = httpx2.Timeout(connect=10.0, read=300.0, write=60.0, pool=10.0)
GOODBYE_SECONDS = 1.0
"""How long the rest of a stream is read after the last event, so that its connection serves on."""

# 408 and 409 are what both providers' own libraries try again; 529 is "overloaded".
AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
NO_STREAMS = frozenset({"application/json", "text/html"})


@attrs.frozen(kw_only=True)
class ErrorAnswer:
    """What a provider answered instead of a stream; `body` is cut at 64 KiB."""

    status: int
    body: bytes
    retry_after_seconds: float | None


Heed = Callable[[str], Awaitable[bool]]
"""Takes the data of an event and says whether it was the last one wanted."""


async def stream(
    http: httpx2.AsyncClient,
    url: str,
    *,
    headers: Mapping[str, str],
    body: Mapping[str, object],
    heed: Heed,
) -> ErrorAnswer | None:
    """Post `body` and give each event of the answer to `heed`; None once the stream ended.

    Raises TryAgain when the connection failed at any point, and what `heed` raises.
    """
    try:
        async with http.stream("POST", url, json=body, headers=headers, timeout=TIMEOUT) as answer:
            if answer.status_code != 200:
                return await _error(answer)
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind in NO_STREAMS:
                # Read nothing of it: the connection is closed by what is raised.
                raise TurnError(f"{url} answered {kind} and no event stream: is it the address?")
            await _events(answer, heed)
    except httpx2.TransportError as error:
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = cause.verify_message
                raise TurnError(f"The certificate of {url} is not trusted: {why}.") from error
        raise TryAgain(f"the connection to the model failed: {told(error)}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise TurnError(f"The model's server cannot be asked at {url}: {told(error)}.") from error
    return None


def told(error: Exception) -> str:
    """Say what an error of HTTP was; some carry no words, but their causes do."""
    if isinstance(error, httpx2.ConnectError) and (why := why_unconnected(error)):
        return why
    return next(filter(None, map(str, _causes(error))), type(error).__name__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


class EventReader:
    """Cuts bytes into events (the WHATWG grammar: CR, LF or CRLF, comments, several data lines).

    Of an event only its data is given: each of our protocols says in it what the event is.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        # What has come of a line: a string that grew by each piece would be copied as often.
        self._line = io.StringIO()
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that `chunk` completes; TurnError past 16 MiB of one stream."""
        self._size += len(chunk)
        if self._size > STREAM_BYTES_MAX:
            raise TurnError(f"The model's answer has more than {STREAM_BYTES_MAX >> 20} MiB.")
        # A CR at the end may be the first half of a CRLF, so it waits for what follows.
        text = self._held + self._decoder.decode(chunk)
        self._held = "\r" if text.endswith("\r") else ""
        whole = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = whole.split("\n")
        events = [event for line in lines if (event := self._end_line(line)) is not None]
        self._line.write(rest)
        return events

    def _end_line(self, text: str) -> str | None:
        self._line.write(text)
        line, self._line = self._line.getvalue(), io.StringIO()
        return self._take(line)

    def _take(self, line: str) -> str | None:
        if not line:
            data = "\n".join(self._data) if self._data else None
            self._data.clear()
            return data
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        return None


async def _events(answer: httpx2.Response, heed: Heed) -> None:
    reader, over = EventReader(), False
    failure: TryAgain | TooLong | TurnError | None = None
    with trio.CancelScope() as rest:
        try:
            async for chunk in answer.aiter_bytes():
                if over:
                    continue
                try:
                    over = await _heed_all(reader.feed(chunk), heed)
                except (TryAgain, TooLong, TurnError) as error:
                    failure, over = error, True
                    rest.cancel()
                else:
                    rest.deadline = trio.current_time() + GOODBYE_SECONDS if over else math.inf
        except httpx2.TransportError:
            # Once the last event is here, how the stream ends is nobody's business.
            if not over:
                raise
    if failure is not None:
        raise failure


async def _heed_all(events: Iterable[str], heed: Heed) -> bool:
    for event in events:
        if await heed(event):
            return True
    return False


async def _error(answer: httpx2.Response) -> ErrorAnswer:
    body = bytearray()
    with trio.CancelScope() as rest:
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > ERROR_BYTES_MAX:
                rest.cancel()
    return ErrorAnswer(
        status=answer.status_code,
        body=bytes(body[:ERROR_BYTES_MAX]),
        retry_after_seconds=retry_after_seconds(
            answer.headers.get("retry-after"), now=datetime.now(UTC)
        ),
    )
