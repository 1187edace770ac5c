"""One folder of an IMAP account: which of its mails is next.

A folder is looked at by EXAMINE, which says at once whether it still has the UIDs that we know
and whether there is anything above our position. Then its UIDs are listed in stretches, so that
neither our memory nor a line of the server's depends on how much mail there is.
"""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice

import attrs
import trio

from muster.clients.mail.imap import ImapConnection, ImapLostError, ImapNoError
from muster.clients.mail.imap_state import (
    ASIDE_COUNT_MAX,
    Cursor,
    ImapState,
    Kept,
    is_wanted,
    resume,
)
from muster.clients.mail.settings import Since

STRETCH_UIDS = 50_000
"""How many UIDs one search spans: all of them fit into the longest line that imaplib reads."""

BATCH_COUNT = 500
ASIDE_RETRY_SECONDS = 300.0
DROPS_MAX = 3
"""A mail at which the connection broke this often is set aside: others wait behind it."""


def our_time() -> datetime:
    """This machine's time, which only a folder's very first sight looks at."""
    return datetime.now(UTC)


@attrs.define(kw_only=True)
class Folder:
    """A folder as this run knows it. Only `open` and `next_uid` ask the server."""

    name: str
    state: ImapState
    since: Since
    note: Callable[[str], None]
    now: Callable[[], datetime] = our_time
    aside: set[int] = attrs.field(factory=set, init=False)
    is_missing: bool = attrs.field(default=False, init=False)
    _cursor: Cursor | None = attrs.field(default=None, init=False)
    _uid_next: int = attrs.field(default=1, init=False)
    _listed_to: int = attrs.field(default=0, init=False)
    _listed: deque[int] = attrs.field(factory=deque, init=False)
    _ready: deque[int] = attrs.field(factory=deque, init=False)
    _again: deque[int] = attrs.field(factory=deque, init=False)
    _again_at: float = attrs.field(default=0.0, init=False)
    _drops: tuple[int, int] = attrs.field(default=(0, 0), init=False)
    _left_out_count: int = attrs.field(default=0, init=False)

    @property
    def cursor(self) -> Cursor:
        """How far the folder was read; it was opened before."""
        assert self._cursor is not None, "a folder is opened first"
        return self._cursor

    def forget_listing(self) -> None:
        """List anew from the position: the connection that the listing came from is over."""
        self._listed.clear()
        self._ready.clear()
        self._listed_to = self._cursor.position if self._cursor else 0

    async def was_seen(self) -> bool:
        """Whether this or an earlier run could open the folder."""
        return (self._cursor or await self.state.find(self.name)) is not None

    async def open(self, connection: ImapConnection) -> bool:
        """Look at the folder; True when there is something to read. ImapNoError if it can't be."""
        found = await connection.examine(self.name)
        known = self._cursor or await self.state.find(self.name)
        newest = None
        if known is None and found.count:
            newest = await connection.newest_date(found.count)
        cursor = resume(known, found, since=self.since, newest=newest, now=self.now())
        if cursor != known:
            await self.state.begin(self.name, cursor)
            self._tell_begun(known, cursor, found.count)
        if cursor != self._cursor:
            self._cursor = cursor
            self.aside = set(await self.state.aside(self.name, cursor.uid_validity))
            self._again.clear()
            self._again_at = 0.0
            self.forget_listing()
        self._uid_next = found.uid_next
        if self.aside and trio.current_time() >= self._again_at:
            self._again_at = trio.current_time() + ASIDE_RETRY_SECONDS
            self._again = deque(sorted(self.aside))
        return bool(self._ready or self._listed or self._again) or self._has_unlisted()

    async def next_uid(self, connection: ImapConnection) -> int | None:
        """The next mail to read, None when there is none now. The folder is the open one."""
        while not self._ready:
            if self._listed:
                await self._choose(connection)
            elif self._has_unlisted():
                await self._list(connection)
            else:
                self._tell_left_out()
                break
        if self.is_missing:
            self.is_missing = False
            self.note(f"the folder {self.name} can be read again")
        for uids in (self._ready, self._again):
            if uids:
                return uids.popleft()
        return None

    async def settle(self, uid: int, uid_validity: int) -> None:
        """This mail needs no more: muster has it, or it is gone."""
        self.aside.discard(uid)
        await self.state.settle(self.name, uid_validity, uid)
        self._move(uid, uid_validity)

    async def refuse(self, uid: int, uid_validity: int, *, external_id: str, reason: str) -> None:
        """Remember that muster will never take this mail."""
        self.aside.discard(uid)
        await self.state.keep(
            self.name, uid_validity, uid, Kept.REFUSED, external_id=external_id, reason=reason
        )
        self._move(uid, uid_validity)

    async def set_aside(self, uid: int, reason: str) -> None:
        """Go on without this mail, and try it again every 5 minutes; told once.

        ImapLostError when 1,000 are aside already: then it is no single mail that is broken.
        """
        if uid in self.aside:
            return
        if len(self.aside) >= ASIDE_COUNT_MAX:
            raise ImapLostError(f"{self.name} has {ASIDE_COUNT_MAX:,} unreadable mails: {reason}")
        uid_validity = self.cursor.uid_validity
        await self.state.keep(
            self.name, uid_validity, uid, Kept.ASIDE, external_id="", reason=reason
        )
        self._move(uid, uid_validity)
        self.aside.add(uid)
        self._again_at = max(self._again_at, trio.current_time() + ASIDE_RETRY_SECONDS)
        self.note(f"cannot read mail {uid} of {self.name}: {reason}; it waits")

    async def count_drop(self, uid: int, reason: str) -> None:
        """The connection broke at this mail; the third time it is set aside."""
        known, count = self._drops
        count = count + 1 if known == uid else 1
        self._drops = (uid, count)
        if count >= DROPS_MAX:
            await self.set_aside(uid, reason)

    def miss(self, error: ImapNoError) -> None:
        """The folder can't be read now; told once, and tried again at each look."""
        if not self.is_missing:
            self.is_missing = True
            self.note(f"cannot read the folder {self.name}: {error}; it is waited for")

    def _has_unlisted(self) -> bool:
        return self._listed_to < self._uid_next - 1

    async def _list(self, connection: ImapConnection) -> None:
        first = self._listed_to + 1
        last = min(self._listed_to + STRETCH_UIDS, self._uid_next - 1)
        self._listed.extend(await connection.uids(first, last))
        self._listed_to = last
        if not self._listed:
            await self.settle(last, self.cursor.uid_validity)

    async def _choose(self, connection: ImapConnection) -> None:
        """Of the next UIDs take those that are new enough."""
        uids = list(islice(self._listed, BATCH_COUNT))
        wanted = uids
        if self.cursor.since_at > 0:
            dates = await connection.dates(uids)
            wanted = [uid for uid in uids if uid in dates and is_wanted(dates[uid], self.cursor)]
            self._left_out_count += len(dates.keys() & set(uids)) - len(wanted)
        if not wanted:
            await self.settle(uids[-1], self.cursor.uid_validity)
        # Only now, since an error above must not lose them.
        for _ in uids:
            self._listed.popleft()
        self._ready.extend(wanted)

    def _move(self, uid: int, uid_validity: int) -> None:
        if self._cursor is not None and self._cursor.uid_validity == uid_validity:
            position = max(self._cursor.position, uid)
            self._cursor = attrs.evolve(self._cursor, position=position)

    def _tell_begun(self, known: Cursor | None, cursor: Cursor, count: int) -> None:
        since = f"{datetime.fromtimestamp(cursor.since_at, UTC):%Y-%m-%d %H:%M} UTC"
        if known is None and self.since is None:
            self.note(f"{self.name}: what arrives from now on is brought; {count:,} mails stay")
        elif known is not None and known.uid_validity != cursor.uid_validity:
            self.note(f"{self.name} was made anew; it is read again from {since} on")
        elif known is None or cursor.position < known.position:
            what = "everything" if cursor.since_at == 0 else f"what arrived since {since}"
            self.note(f"{self.name}: {what} is brought, of {count:,} mails")

    def _tell_left_out(self) -> None:
        if self._left_out_count:
            since = f"{datetime.fromtimestamp(self.cursor.since_at, UTC):%Y-%m-%d %H:%M} UTC"
            count = self._left_out_count
            self.note(f"{self.name}: {count:,} mails from before {since} are left where they are")
        self._left_out_count = 0
