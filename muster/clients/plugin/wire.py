"""What crosses the wire between a plugin and muster, and how it can go wrong.

The shapes are those of the reference (plugins: "The plugin author's contract"). Errors are
few and each asks for another reaction, which its docstring names.
"""

import enum
import json
from datetime import UTC, datetime

import attrs

EXTERNAL_REF_CHARS_MAX = 200
"""Longest `external_ref` of a result, in characters."""

DETAIL_BYTES_MAX = 4 * 1024
"""Longest `detail` of a result, in bytes of UTF-8."""

CLAIM_WAIT_SECONDS_MAX = 25
"""Longest wait of one claim, in seconds; muster treats more as this."""

TASK_TEXT_CHARS_MAX = 16 * 1024
"""What the SDK sends of a notice's body and comment; muster keeps their first 16 KiB of UTF-8."""

LEASE_SECONDS = 120
"""How long a claimed draft is leased (plugins: "At most once"), in seconds."""


@attrs.frozen(kw_only=True)
class Message:
    """One inbound message as the plugin posts it (plugins: "an inbound message").

    Limits, which muster checks and never cuts to: `external_id` and `thread` 1 to 200 bytes
    without spaces and controls; `body` 1 byte to 16 KiB of UTF-8; `sender` and `subject` 200
    characters; `received_at` with a time zone. None leaves a field out.
    """

    external_id: str
    body: str
    sender: str | None = None
    subject: str | None = None
    received_at: datetime | None = None
    thread: str | None = None
    no_reply: bool = False
    sender_verified: bool = False
    human_conversation: bool = False

    def encode(self) -> bytes:
        """The JSON body of `POST /plugin/v1/messages`.

        Non-ASCII is escaped, so that even a lone surrogate reaches muster and gets its 400.
        """
        fields: dict[str, str | bool] = {"external_id": self.external_id, "body": self.body}
        for name in ("sender", "subject", "thread"):
            text = getattr(self, name)
            if text is not None:
                fields[name] = text
        if self.received_at is not None:
            # In UTC: an offset with seconds, as zones had them once, is no time of the wire's.
            moment = self.received_at.astimezone(UTC).isoformat()
            fields["received_at"] = moment.replace("+00:00", "Z")
        # False is muster's default for each mark, and a field left out means the default.
        for name in ("no_reply", "sender_verified", "human_conversation"):
            if getattr(self, name):
                fields[name] = True
        return json.dumps(fields).encode("ascii")


@attrs.frozen(kw_only=True)
class Posted:
    """muster has the message: its id there, and `queued`, `delivered` or `unconfirmed`."""

    id: int
    status: str


@attrs.frozen(kw_only=True)
class Notice:
    """A notice about one record of the upstream (plugins: "one task per upstream record").

    `key` is `<namespace>:<id>`, a tag in its one spelling, in a namespace that the server lists.
    With a `title` and a `body` it files a task if no open one carries the key; a `comment` is
    recorded once on that task or the open one, so it should begin with what is unique of the
    upstream's event. Give both, or one. `routed_as` (assigned, mentioned, update) asks muster to
    hand the notice on. Texts that are too long are cut, titles at 512 characters.
    """

    key: str
    title: str | None = None
    body: str | None = None
    comment: str | None = None
    routed_as: str | None = None

    def encode(self) -> bytes:
        """The JSON body of `POST /plugin/v1/tasks`; non-ASCII is escaped, as in a message.

        What muster would cut away is not sent, so that no record is too large for its door.
        """
        fields: dict[str, object] = {"key": self.key}
        if self.title is not None or self.body is not None:
            title, body = self.title or "", self.body or ""
            fields["create"] = {
                "title": title[:TASK_TEXT_CHARS_MAX],
                "body": body[:TASK_TEXT_CHARS_MAX],
            }
        if self.comment is not None:
            fields["comment"] = self.comment.strip()[:TASK_TEXT_CHARS_MAX]
        if self.routed_as is not None:
            fields["route_to_chief"] = True
            fields["notice"] = self.routed_as
        return json.dumps(fields).encode("ascii")


@attrs.frozen(kw_only=True)
class Noticed:
    """What a notice did: the open task of its key (None for none), and what was added to it.

    `routed` is where it was handed on (chief, agent, attention), empty for nowhere.
    """

    task_id: int | None
    created: bool
    commented: bool
    routed: str = ""


@attrs.frozen(kw_only=True)
class Draft:
    """One approved reply, claimed: leased to this plugin for 2 minutes and never offered again.

    `body` is exactly the text the owner approved; `message_external_id` is the `external_id`
    that the plugin posted the message with.
    """

    draft_id: int
    message_external_id: str
    body: str
    approved_at: str


@attrs.frozen(kw_only=True)
class Result:
    """What became of a draft upstream: sent, or known not to have been sent."""

    ok: bool
    external_ref: str = ""
    detail: str = ""

    def encode(self) -> bytes:
        """The JSON body of `POST /plugin/v1/drafts/{id}/result`."""
        fields: dict[str, str | bool] = {"ok": self.ok}
        if self.external_ref:
            fields["external_ref"] = self.external_ref
        if self.detail:
            fields["detail"] = self.detail
        return json.dumps(fields).encode("ascii")


@attrs.frozen
class Sent:
    """A sink sent a reply: the upstream's reference and, if it gave one, its answer.

    They become the result's `external_ref` (200 characters) and `detail` (4 KiB); longer ones are
    fitted (`fit_result`).
    """

    external_ref: str
    detail: str = ""


class Verdict(enum.Enum):
    """What muster made of a reported result; each of them is final."""

    RECORDED = "recorded"
    NOT_OURS = "not_ours"
    CONFLICT = "conflict"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class Reported:
    """muster answered a result: recorded (200), not ours (404), conflict (409), refused (400).

    `status` is the draft's state at muster, empty when the answer named none.
    """

    draft_id: int
    verdict: Verdict
    status: str = ""
    error: str = ""


class PluginError(Exception):
    """Anything muster or the way to it answered instead of what was asked for."""


class NotSignedInError(PluginError):
    """401: the token is not that of a live plugin. Nothing helps but another token."""


class PluginsOffError(PluginError):
    """404: this server runs without plugins. Ask again, slowly."""


class RefusedError(PluginError):
    """400, 413 or 422: this request will never be accepted as it is.

    `field` names the field that broke a rule when muster said so, else it is empty.
    """

    def __init__(self, *, status: int, error: str, code: str = "", field: str = "") -> None:
        super().__init__(f"muster refused it ({status}): {error}")
        self.status = status
        self.error = error
        self.code = code
        self.field = field

    @property
    def reason(self) -> str:
        """What muster said, and the field that it was about."""
        return f"{self.error} ({self.field})" if self.field else self.error


class UnexpectedAnswerError(PluginError):
    """An answer that muster never gives: most likely the URL is that of something else."""


class UnreachableError(PluginError):
    """No connection, or no answer. A request may have been carried out all the same."""


class TryLaterError(PluginError):
    """429 or 5xx. `retry_after_seconds` is what `Retry-After` asked for, if it did."""

    def __init__(self, message: str, *, retry_after_seconds: float | None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ClaimLostError(PluginError):
    """A claim's answer was lost; a draft it may have carried becomes unconfirmed at muster.

    The next claim is a new claim: muster never offers that draft again.
    """


class SendFailedError(Exception):
    """Raised by a sink's `send` when the reply is *known* not to have been sent."""


class SendLaterError(Exception):
    """Raised by a sink's `send` when the reply is *known* not to have been sent, but may soon be.

    A connection that was refused, an upstream that is busy: the loop tries the same sending again
    while its lease lasts. Its text is the result's `detail` when it does not last.
    """


class SendUnknownError(Exception):
    """Raised by a sink's `send` when nobody can know whether the reply was sent."""


def cut_bytes(text: str, bytes_max: int) -> str:
    """The longest beginning of `text` within `bytes_max` bytes of UTF-8, whole characters only."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= bytes_max:
        return raw.decode("utf-8")
    return raw[:bytes_max].decode("utf-8", "ignore")


def fit_result(result: Result) -> Result:
    """The result within the contract's limits, since a reply already sent must be reportable.

    A reference that is too long is cut and stands whole in the detail; a detail is cut at a
    character and ends with a mark; NUL, which muster refuses anywhere, becomes U+FFFD.
    """
    reference = result.external_ref.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    detail = result.detail.replace("\0", "\ufffd")
    if len(reference) > EXTERNAL_REF_CHARS_MAX:
        detail = f"The whole external_ref: {reference}\n{detail}".rstrip()
        reference = reference[:EXTERNAL_REF_CHARS_MAX]
    fitted = cut_bytes(detail, DETAIL_BYTES_MAX)
    if len(fitted) < len(detail):
        fitted = cut_bytes(detail, DETAIL_BYTES_MAX - len("…".encode())) + "…"
    return Result(ok=result.ok, external_ref=reference, detail=fitted)
