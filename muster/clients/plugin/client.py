"""The four doors of muster's plugin API, as a client on Trio (plugins: "Two ways in").

`post`, `post_task` and `report` may be repeated, so they are, until they are answered. `claim` may
not be: a claim whose answer was lost is still a claim, so one that fails is simply over, and
whoever calls `claim` again makes a new one.
"""

import itertools
import json
import math
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import attrs
import httpx2
import msgspec
import trio

from muster.clients.backoff import delay_seconds, retry_after_seconds
from muster.clients.plugin.wire import (
    CLAIM_WAIT_SECONDS_MAX,
    ClaimLostError,
    Draft,
    Message,
    Notice,
    Noticed,
    NotSignedInError,
    PluginsOffError,
    Posted,
    RefusedError,
    Reported,
    Result,
    TryLaterError,
    UnexpectedAnswerError,
    UnreachableError,
    Verdict,
    fit_result,
)
from muster.clients.reasons import why_unconnected
from muster.clients.urls import read_http_url

ANSWER_SECONDS = 30.0
"""How long `post` and `report` wait for one answer, in seconds."""

CLAIM_SLACK_SECONDS = 10.0
"""What a claim's timeout has beyond its wait (plugins: "At most once"), in seconds."""

CONNECT_SECONDS = 10.0
ANSWER_BYTES_MAX = 1024 * 1024
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class _PostedAnswer(msgspec.Struct, frozen=True):
    id: int
    status: str


class _NoticedAnswer(msgspec.Struct, frozen=True):
    id: int | None
    created: bool
    commented: bool
    routed: bool | str = False


class _DraftAnswer(msgspec.Struct, frozen=True):
    draft_id: int
    message_external_id: str
    body: str
    approved_at: str


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: str = ""
    code: str = ""
    field: str = ""
    status: str = ""


@attrs.frozen(kw_only=True)
class _Answer:
    status: int
    retry_after_seconds: float | None
    body: bytes

    def error(self) -> _ErrorAnswer:
        """The error's sentence, slug and field; the start of the body when it is no JSON."""
        try:
            return msgspec.json.decode(self.body, type=_ErrorAnswer)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
            return _ErrorAnswer(error=ascii(self.body[:120]))


def note_on_stderr(line: str) -> None:
    """Say one line to whoever watches the plugin."""
    sys.stderr.write(f"muster plugin: {line}\n")
    sys.stderr.flush()


class PluginClient:
    """A plugin's side of the wire; open it with `async with`.

    `url` is muster's address, `token` an `mpl_` token; ValueError when either cannot be one.
    Timeouts: 10 s to connect, 30 s for the answer to a post or a report, wait + 10 s for a
    claim. `note` gets a line when muster stops answering and one when it is back.
    """

    def __init__(
        self, url: str, token: str, *, note: Callable[[str], None] = note_on_stderr
    ) -> None:
        parts = read_http_url(url)
        if parts is None:
            raise ValueError("the URL of muster is not an address like http://localhost:8420")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("a plugin token is one word of ASCII characters")
        self.url = url.rstrip("/")
        self._note = note
        self._in_trouble = False
        self._http = httpx2.AsyncClient(
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=8, keepalive_expiry=30),
            # Without TLS the system's certificates are not read, which takes its time.
            verify=parts.scheme == "https",
            # A proxy named in the environment can't reach this machine's own loopback.
            trust_env=parts.hostname not in LOOPBACK_HOSTS,
        )

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        await self._http.__aexit__(kind, error, trace)

    async def post(self, message: Message, *, patience_seconds: float = math.inf) -> Posted:
        """Bring muster one message; asks again until it is answered (a repeat is safe).

        Waits as `Retry-After` asks, else with backoff and jitter. Raises RefusedError with the
        field, NotSignedInError, PluginsOffError, UnexpectedAnswerError; UnreachableError or
        TryLaterError only when the next try would begin after `patience_seconds`.
        """
        answer = await self._until_answered(
            "/plugin/v1/messages", message.encode(), patience_seconds=patience_seconds
        )
        if answer.status not in (200, 202):
            raise _failure(answer)
        try:
            posted = msgspec.json.decode(answer.body, type=_PostedAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Whoever said 2xx was not muster, so nothing may count as stored.
            raise UnexpectedAnswerError(f"{self.url} answered 2xx without an id") from error
        return Posted(id=posted.id, status=posted.status)

    async def post_task(self, notice: Notice, *, patience_seconds: float = math.inf) -> Noticed:
        """Record a notice on the one open task of its key; asks again until it is answered.

        A repeat adds nothing, so it is safe after a restart too. A server that lists no namespaces
        (503) is asked again as one that is away. Raises as `post` does; RefusedError also for a
        409, which means that a resend would not help.
        """
        answer = await self._until_answered(
            "/plugin/v1/tasks", notice.encode(), patience_seconds=patience_seconds
        )
        if answer.status == 409:
            error = answer.error()
            raise RefusedError(status=409, error=error.error, code=error.code, field=error.field)
        if answer.status not in (200, 201):
            raise _failure(answer)
        try:
            noticed = msgspec.json.decode(answer.body, type=_NoticedAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnexpectedAnswerError(f"{self.url} answered 2xx without a task") from error
        return Noticed(
            task_id=noticed.id,
            created=noticed.created,
            commented=noticed.commented,
            routed=noticed.routed if isinstance(noticed.routed, str) else "",
        )

    async def claim(self, wait_seconds: int) -> Draft | None:
        """One claim (plugins: "collect an approved reply"); None when nothing is to be sent.

        Never repeated here. Raises ClaimLostError when its answer was lost, UnreachableError
        when muster never saw it, TryLaterError for 429 and 5xx, and the errors of `post`.
        """
        assert 0 <= wait_seconds <= CLAIM_WAIT_SECONDS_MAX, "a claim waits 0 to 25 seconds"
        body = json.dumps({"wait_seconds": wait_seconds}).encode("ascii")
        limit_seconds = wait_seconds + CLAIM_SLACK_SECONDS
        try:
            answer = await self._ask("/plugin/v1/drafts/claim", body, limit_seconds=limit_seconds)
        except _NoAnswerError as error:
            raise ClaimLostError(f"the answer to a claim was lost: {error}") from error
        if answer.status == 204:
            return None
        if answer.status != 200:
            raise _failure(answer)
        try:
            draft = msgspec.json.decode(answer.body, type=_DraftAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClaimLostError(f"the answer to a claim is not a draft: {error}") from error
        return Draft(
            draft_id=draft.draft_id,
            message_external_id=draft.message_external_id,
            body=draft.body,
            approved_at=draft.approved_at,
        )

    async def report(
        self,
        draft_id: int,
        ok: bool,  # noqa: FBT001 - the contract's own field, named at every call
        external_ref: str = "",
        detail: str = "",
        *,
        patience_seconds: float = math.inf,
    ) -> Reported:
        """Tell muster what became of a draft; asks again until it is answered.

        `external_ref` beyond 200 characters and `detail` beyond 4 KiB are fitted, see
        `fit_result`. 200, 400, 404 and 409 are final answers and come back as a verdict;
        raises NotSignedInError, PluginsOffError, UnexpectedAnswerError, and as `post` does
        when patience ends.
        """
        result = fit_result(Result(ok=ok, external_ref=external_ref, detail=detail))
        path = f"/plugin/v1/drafts/{draft_id}/result"
        answer = await self._until_answered(
            path, result.encode(), patience_seconds=patience_seconds
        )
        if answer.status == 404:
            await self._require_doors(patience_seconds=patience_seconds)
        error = answer.error()
        match answer.status:
            case 200:
                verdict = Verdict.RECORDED
            case 400 | 413 | 422:
                verdict = Verdict.REFUSED
            case 404:
                verdict = Verdict.NOT_OURS
            case 409:
                verdict = Verdict.CONFLICT
            case _:
                raise _failure(answer)
        return Reported(draft_id=draft_id, verdict=verdict, status=error.status, error=error.error)

    async def knock(self) -> None:
        """Show the token and do nothing else; one try, which raises the errors of `post`.

        A message without fields is refused before anything is stored, behind the credential.
        """
        answer = await self._ask("/plugin/v1/messages", b"{}", limit_seconds=ANSWER_SECONDS)
        if answer.status != 400:
            raise _failure(answer)

    async def _require_doors(self, *, patience_seconds: float) -> None:
        """Raise PluginsOffError when a 404 was about the whole server and not about one draft.

        A message without fields is refused before anything is stored, where there is a door at
        all. To take the one 404 for the other would throw a result away.
        """
        answer = await self._until_answered(
            "/plugin/v1/messages", b"{}", patience_seconds=patience_seconds
        )
        if answer.status != 400:
            raise _failure(answer)

    async def _until_answered(self, path: str, body: bytes, *, patience_seconds: float) -> _Answer:
        """Ask until the answer is one that asking again would not change."""
        give_up_at = trio.current_time() + patience_seconds
        for attempt in itertools.count():
            failure: TryLaterError | UnreachableError
            asked_seconds = None
            try:
                answer = await self._ask(path, body, limit_seconds=ANSWER_SECONDS)
            except UnreachableError as error:
                failure = error
            else:
                if not _is_temporary(answer.status):
                    self._say_over()
                    return answer
                failure = _try_later(answer)
                asked_seconds = answer.retry_after_seconds
            wait_seconds = delay_seconds(
                attempt,
                retry_after_seconds=asked_seconds,
                chance=random.random(),  # noqa: S311
            )
            if trio.current_time() + wait_seconds > give_up_at:
                raise failure
            self._say_trouble(f"{failure}; trying again in {wait_seconds:.1f} s")
            await trio.sleep(wait_seconds)
        raise AssertionError("count() does not end")

    async def _ask(self, path: str, body: bytes, *, limit_seconds: float) -> _Answer:
        """One request and its answer, within `limit_seconds` altogether."""
        received = bytearray()
        try:
            with trio.fail_after(limit_seconds):
                async with self._http.stream("POST", self.url + path, content=body) as response:
                    async for chunk in response.aiter_bytes():
                        received += chunk
                        if len(received) > ANSWER_BYTES_MAX:
                            raise UnexpectedAnswerError(
                                f"{self.url} answered more than {ANSWER_BYTES_MAX} bytes"
                            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            why = why_unconnected(error) or str(error) or "no answer"
            raise UnreachableError(f"cannot reach {self.url}: {why}") from error
        except trio.TooSlowError as error:
            raise _NoAnswerError(f"{self.url}: no answer in {limit_seconds:.0f} s") from error
        except httpx2.RequestError as error:
            reason = str(error) or type(error).__name__
            raise _NoAnswerError(f"{self.url} broke off: {reason}") from error
        asked = retry_after_seconds(response.headers.get("retry-after"), now=datetime.now(UTC))
        return _Answer(status=response.status_code, retry_after_seconds=asked, body=bytes(received))

    def _say_trouble(self, line: str) -> None:
        # One line when trouble begins, not one a try: a night offline must not fill a disk.
        if not self._in_trouble:
            self._note(line)
        self._in_trouble = True

    def _say_over(self) -> None:
        if self._in_trouble:
            self._note(f"{self.url} answers again")
        self._in_trouble = False


class _NoAnswerError(UnreachableError):
    """The request left, or part of it, and no whole answer came back."""


def _is_temporary(status: int) -> bool:
    return status in (408, 425, 429) or status >= 500


def _try_later(answer: _Answer) -> TryLaterError:
    return TryLaterError(
        f"muster answered {answer.status}: {answer.error().error}",
        retry_after_seconds=answer.retry_after_seconds,
    )


def _failure(answer: _Answer) -> Exception:
    """The error that an answer other than the hoped-for one stands for."""
    error = answer.error()
    match answer.status:
        case 401:
            return NotSignedInError(f"muster does not take this token (401): {error.error}")
        case 404:
            return PluginsOffError(
                "plugins are off on this server (404), or it is no muster: "
                "MUSTER_PLUGINS=1 opens the doors for them"
            )
        case 400 | 413 | 422:
            return RefusedError(
                status=answer.status, error=error.error, code=error.code, field=error.field
            )
        case status if _is_temporary(status):
            return _try_later(answer)
        case status:
            return UnexpectedAnswerError(f"muster answered {status}: {error.error}")
