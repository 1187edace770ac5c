"""The fake muster: it keeps the contract's rules as a plugin sees them, but for one fault a row.

A message is stored once, a reply is claimed once, a result is recorded once. A fault is for the
next request of its door, a lost claim for the next one that has a reply; after it the door answers
honestly.
"""

import enum
import json
import re
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, assert_never

import attrs
import trio

from muster.clients.plugin_test.http import Asked, NoAnswer, Told

BODY_BYTES_MAX = 16 * 1024
WAIT_SECONDS_MAX = 25
REQUESTS_KEPT_MAX = 2000
_RESULT = re.compile(r"/plugin/v1/drafts/([0-9]{1,18})/result")
_MESSAGE_FIELDS = {
    "external_id": str,
    "body": str,
    "sender": str,
    "subject": str,
    "received_at": str,
    "thread": str,
    "no_reply": bool,
    "sender_verified": bool,
    "human_conversation": bool,
}
_RESULT_FIELDS = {"ok": bool, "external_ref": str, "detail": str}


class Door(enum.Enum):
    """One of the three doors that a plugin knocks at."""

    MESSAGES = "/plugin/v1/messages"
    CLAIM = "/plugin/v1/drafts/claim"
    RESULT = "/plugin/v1/drafts/{id}/result"


@attrs.frozen(kw_only=True)
class Lose:
    """The request is carried out, and its answer is lost."""


@attrs.frozen(kw_only=True)
class Say:
    """This answer, and nothing is carried out."""

    status: int
    code: str
    retry_after_seconds: int | None = None


@attrs.frozen(kw_only=True)
class Late:
    """The request is carried out, and answered so long after all the time that it may take."""

    seconds: float


@attrs.frozen(kw_only=True)
class Hold:
    """The request is carried out, and never answered."""


Fault = Lose | Say | Late | Hold


@attrs.define(kw_only=True)
class Came:
    """One request that came: its door, its decoded body, when it came and what it was told."""

    door: Door
    body: dict[str, Any]
    at: float
    draft_id: int | None
    status: int | None = None  # None: no answer, or none yet


@attrs.frozen(kw_only=True)
class Draft:
    """An approved reply."""

    draft_id: int
    external_id: str
    body: str


@attrs.define(kw_only=True)
class FakeMuster:
    """The state that a row looks at and scripts."""

    token: str = attrs.field(factory=lambda: f"mpl_{secrets.token_urlsafe(24)}")
    came: deque[Came] = attrs.field(factory=lambda: deque(maxlen=REQUESTS_KEPT_MAX))
    stored: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    approved: deque[Draft] = attrs.field(factory=lambda: deque(maxlen=100))
    claimed: list[int] = attrs.field(factory=list)
    results: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    turned_away: int = 0
    faults: dict[Door, deque[Fault]] = attrs.field(factory=dict)
    after: Callable[[Door, int], None] | None = None
    """Called in the moment in which an answer has left."""
    before: Callable[[Door], None] | None = None
    """Called when a request was carried out, before its answer."""
    _offered: trio.Event = attrs.field(factory=trio.Event)
    _next_draft_id: int = 1

    def fail(self, door: Door, *faults: Fault) -> None:
        """Let the next requests of `door` go wrong."""
        self.faults.setdefault(door, deque(maxlen=100)).extend(faults)

    def approve(self, external_id: str, body: str) -> Draft:
        """Approve a new reply to the message `external_id`."""
        draft = Draft(draft_id=self._next_draft_id, external_id=external_id, body=body)
        self._next_draft_id += 1
        self.offer(draft)
        return draft

    def offer(self, draft: Draft) -> None:
        """Offer a reply to the next claim."""
        self.approved.append(draft)
        self._offered.set()
        self._offered = trio.Event()

    def at_door(self, door: Door) -> list[Came]:
        """What came to `door`, in its order."""
        return [came for came in self.came if came.door is door]

    async def handle(self, asked: Asked) -> Told:
        """Answer one request."""
        door, draft_id = _door_of(asked)
        if door is None:
            return _error(404, "not_found", "There is nothing here by this method and path.")
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            self.turned_away += 1
            return _error(401, "unauthorized", "This door takes a live plugin token.")
        try:
            body = json.loads(asked.body) if asked.body else {}
        except ValueError:
            body = None
        came = Came(
            door=door,
            body=body if isinstance(body, dict) else {},
            at=trio.current_time(),
            draft_id=draft_id,
        )
        self.came.append(came)
        told = await self._tell(came, is_object=isinstance(body, dict))
        came.status = told.status
        return told

    def sent(self, asked: Asked, told: Told) -> None:
        """Note that an answer has left."""
        door, _ = _door_of(asked)
        if self.after is not None and door is not None:
            self.after(door, told.status)

    async def _tell(self, came: Came, *, is_object: bool) -> Told:
        match self._take(came.door, Say, Late):
            case Say(retry_after_seconds=retry) as say:
                headers = () if retry is None else (("retry-after", str(retry)),)
                return _error(say.status, say.code, "The test says so.", headers=headers)
            case Late(seconds=seconds):
                await trio.sleep(seconds + _wait_seconds(came.body))
        if not is_object:
            return _error(400, "bad_json", "The body is not a JSON object.")
        told = await self._carry_out(came)
        if self.before is not None:
            self.before(came.door)
        if came.door is Door.CLAIM and told.status != 200:
            return told
        match self._take(came.door, Lose, Hold):
            case Lose():
                raise NoAnswer
            case Hold():
                await trio.sleep_forever()
        return told

    def _take(self, door: Door, *kinds: type[Fault]) -> Fault | None:
        """Take the next fault of `door`, if it is one of these kinds."""
        faults = self.faults.get(door)
        return faults.popleft() if faults and isinstance(faults[0], kinds) else None

    async def _carry_out(self, came: Came) -> Told:
        match came.door:
            case Door.MESSAGES:
                return self._store(came.body)
            case Door.CLAIM:
                return await self._claim(came.body)
            case Door.RESULT:
                assert came.draft_id is not None, "the path has the draft's id"
                return self._record(came.draft_id, came.body)
            case _:
                assert_never(came.door)

    def _store(self, body: dict[str, Any]) -> Told:
        broken = _broken_field(body, _MESSAGE_FIELDS, required=("external_id", "body"))
        broken = broken or _out_of_bounds(body)
        if broken is not None:
            return _error(400, "invalid", f"{broken} breaks a rule.", field=broken)
        external_id = body["external_id"]
        known = external_id in self.stored
        self.stored.setdefault(external_id, body)
        number = list(self.stored).index(external_id) + 1
        return _json(200 if known else 202, {"id": number, "status": "queued"})

    async def _claim(self, body: dict[str, Any]) -> Told:
        if not set(body) <= {"wait_seconds"} or _wait_seconds(body) < 0:
            return _error(400, "invalid", "wait_seconds is no wait.", field="wait_seconds")
        with trio.move_on_after(_wait_seconds(body)):
            while not self.approved:
                await self._offered.wait()
        if not self.approved:
            return Told(status=204)
        draft = self.approved.popleft()
        self.claimed.append(draft.draft_id)
        return _json(
            200,
            {
                "draft_id": draft.draft_id,
                "message_external_id": draft.external_id,
                "body": draft.body,
                "approved_at": "2026-03-01T10:00:00Z",
            },
        )

    def _record(self, draft_id: int, body: dict[str, Any]) -> Told:
        broken = _broken_field(body, _RESULT_FIELDS, required=("ok",))
        if broken is not None:
            return _error(400, "invalid", f"{broken} breaks a rule.", field=broken)
        if draft_id not in self.claimed:
            return _error(404, "not_found", "This plugin claimed no such reply.")
        kept = self.results.setdefault(draft_id, body)
        facts: dict[str, Any] = {"draft_id": draft_id, "status": "sent" if kept["ok"] else "failed"}
        if kept["ok"] is body["ok"]:
            return _json(200, facts)
        return _error(409, "draft_state", "The reply has the other result already.", **facts)


def _wait_seconds(body: dict[str, Any]) -> int:
    """The wait of a claim; -1 for what is none, 0 for another request."""
    wait = body.get("wait_seconds", 0)
    return min(wait, WAIT_SECONDS_MAX) if type(wait) is int and wait >= 0 else -1


def _door_of(asked: Asked) -> tuple[Door | None, int | None]:
    if asked.method != "POST":
        return None, None
    result = _RESULT.fullmatch(asked.path)
    if result is not None:
        return Door.RESULT, int(result[1])
    found = [door for door in Door if door.value == asked.path]
    return (found[0] if found else None), None


def _broken_field(
    body: dict[str, Any], fields: dict[str, type], *, required: tuple[str, ...]
) -> str | None:
    """The name of a field that is missing, unknown or of another type."""
    for name in required:
        if name not in body:
            return name
    for name, value in body.items():
        if name not in fields or type(value) is not fields[name]:
            return name
    return None


def _out_of_bounds(body: dict[str, Any]) -> str | None:
    for name, bytes_max in (("body", BODY_BYTES_MAX), ("external_id", 200), ("thread", 200)):
        text = body.get(name)
        if text is not None and not 1 <= len(text.encode("utf-8", "replace")) <= bytes_max:
            return name
    for name in ("sender", "subject"):
        if len(body.get(name, "")) > 200:
            return name
    for name in ("external_id", "thread"):
        if any(letter.isspace() or not letter.isprintable() for letter in body.get(name, "")):
            return name
    return None


def _json(status: int, members: dict[str, Any]) -> Told:
    return Told(status=status, body=json.dumps(members).encode())


def _error(
    status: int,
    code: str,
    sentence: str,
    *,
    headers: tuple[tuple[str, str], ...] = (),
    **members: Any,
) -> Told:
    body = json.dumps({**members, "error": sentence, "code": code}).encode()
    return Told(status=status, body=body, headers=headers)
