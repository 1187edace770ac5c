"""Where a hint goes on this node: to whoever caches what it speaks of.

Hints come from this node's own commits, synchronously, and from other processes through the
listener; both take this one path. It never waits, and a hint that finds nobody is dropped: whoever
comes later reads the database.
"""

from collections.abc import Mapping, Sequence

from actors import Address, Undelivered
from muster.chief.actor import Deliver, Retry, Words
from muster.drafts.actor import Waiters
from muster.node.live import Live
from muster.node.owners import Owners
from muster.node.sweeps import ROUND
from muster.outcomes import SHOWN, Hint, HintKind
from muster.push.actor import Look, Sweep

# What an owner is pushed, and where.
PUSHED = frozenset(
    {HintKind.DRAFT_CHANGED, HintKind.ASK_CHANGED, HintKind.TASK_CHANGED, HintKind.DEVICE_CHANGED}
)


class Fanout:
    """Spreads hints; until `attach` gives it the owners it reaches waiters and pages alone."""

    def __init__(self, waiters: Waiters, live: Live) -> None:
        self._waiters = waiters
        self._live = live
        self._owners: Owners | None = None
        self._pusher: Address | None = None
        self._rounds: Mapping[HintKind, Address] = {}

    def attach(self, owners: Owners, pusher: Address, rounds: Mapping[HintKind, Address]) -> None:
        """The tree is up: hints reach its actors from here on.

        `rounds` are the sweeps that a hint of some kind brings on at once.
        """
        self._owners = owners
        self._pusher = pusher
        self._rounds = rounds

    def publish(self, hints: Sequence[Hint]) -> None:
        """Let each hint's addressees look again."""
        for hint in hints:
            self._spread(hint)

    def resync(self) -> None:
        """Hints may have been lost: who waits looks again, who is connected proves again."""
        self._waiters.wake_all()
        self._waiters.doubt_all()
        self._live.resync()
        self._tell_pusher(Sweep())
        if self._owners is not None:
            self._owners.doubt_all()
            self._owners.wake_all()
            self._owners.look_at_all_sessions()

    def _spread(self, hint: Hint) -> None:
        if hint.kind in SHOWN:
            self._show(hint)
            return
        match hint.kind:
            case HintKind.DRAFT_CLAIMABLE:
                self._waiters.wake(hint.id)
            case HintKind.PLUGIN_REVOKED:
                self._waiters.doubt(plugin_id=hint.id)
            case HintKind.AGENT_CHANGED:
                self._live.tell(hint.owner_id, "agent", {"id": hint.id})
            case HintKind.USER_CHANGED:
                self._waiters.doubt(owner_id=hint.owner_id)
                self._live.end_sessions(hint.owner_id)
            case _:
                pass
        if self._owners is not None:
            _reach(self._owners, hint)
        if (sweep := self._rounds.get(hint.kind)) is not None:
            try:
                sweep.tell(ROUND, key=ROUND)
            except Undelivered:
                return

    def _show(self, hint: Hint) -> None:
        noun = hint.kind.value.removesuffix(".changed")
        self._live.tell(hint.owner_id, noun, {"id": hint.id})
        if hint.kind is HintKind.SESSION_CHANGED:
            self._live.end_sessions(hint.owner_id, hint.id)
        if hint.kind in PUSHED:
            changed = hint.kind is HintKind.DEVICE_CHANGED
            self._tell_pusher(Look(owner_id=hint.owner_id, device_changed=changed))

    def _tell_pusher(self, message: Look | Sweep) -> None:
        """Equal messages wait there once; what is dropped, the next sweep finds."""
        if self._pusher is not None:
            try:
                self._pusher.tell(message, key=message)
            except Undelivered:
                return


def _reach(owners: Owners, hint: Hint) -> None:
    """Tell the actor of the hint's owner that it is for, if there is one."""
    match hint.kind:
        case HintKind.MESSAGE_QUEUED:
            owners.tell_chief(hint.owner_id, Deliver(message_id=hint.id))
        case HintKind.CLAIM_BEGUN:
            owners.tell_chief(hint.owner_id, Retry())
        case HintKind.WORDS_QUEUED:
            owners.tell_chief(hint.owner_id, Words(agent_id=hint.id))
        case HintKind.AGENT_CHANGED:
            owners.doubt(hint.owner_id, hint.id)
        case HintKind.HOST_DOUBTED:
            owners.doubt_hosts(hint.owner_id, hint.id)
        case HintKind.SEND_QUEUED:
            owners.look_at_session(hint.owner_id, hint.id, start=True)
        case HintKind.USER_CHANGED:
            owners.doubt(hint.owner_id, None)
            owners.doubt_hosts(hint.owner_id, None)
        case _:
            pass
