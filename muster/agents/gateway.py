"""The agent gateway's side of `/agent/v1/socket`: frames, and the one turn in hand.

JSON frames, `{"type": …}`; an unknown type is ignored, a malformed frame closes the socket 4400.

| from       | frame                                                                             |
|------------|-----------------------------------------------------------------------------------|
| the server | `welcome {agent_id, name, instructions, heartbeat_seconds}`, once                 |
|            | `turn {turn_id, conversation, title, text, deadline_seconds}`, one at a time      |
|            | `cancel {turn_id}` when the deadline passed or the server stops; `ping`           |
| the agent  | `turn.started`, `turn.delta {text}`, `turn.done {text}`, `turn.failed {error}`,   |
|            | `turn.busy`, each with its `turn_id`; `pong`                                      |

`turn.done` and `turn.failed` may carry `usage {model, calls, input_tokens, cached_input_tokens,
output_tokens}`: what the turn took of a language model, also one that failed. It is the agent's
word and nothing but a record: the counts are integers of 0 to 10**12, `model` is a string of at
most 200 characters without controls, and anything else is a malformed frame.

An unproven end says why, as far as muster saw it (muster/failure.py): of the `error` of a
`turn.failed` one line of at most 500 characters is kept.

What the agent says in a turn, in its `turn.delta`s and its `turn.done`, goes to the Ear of whoever
had the turn run; nothing of it is kept here.

A turn whose writing never began, or that was answered `turn.busy` before anything else, was not
handed over. Once writing began every other ending but `turn.done` is unproven: the text may have
reached the agent (plugins: "Delivery to your chief").

A turn that is over its deadline is told so by `cancel`, and the agent's answer is waited for a
little longer: it brings the tokens, and a `turn.done` that crossed the `cancel` counts like any.

Rejected: asking the agent whether it got the turn (the answer can be lost as well), and a turn that
survives its socket (the agent's tools ran on the old connection; nobody can tell how far).
"""

import enum
from collections.abc import Mapping
from typing import Protocol

import attrs
import trio

from muster.connections.rules import BadFrame
from muster.failure import Cause, Failure, bound_error
from muster.principals import Agent
from muster.token_use import TokenUse, read_token_use

CANCEL_GRACE_SECONDS = 2.0  # for the answer to a `cancel` by deadline

Frame = Mapping[str, object]


class Peer(Protocol):
    """A connected socket, as the web floor gives it."""

    async def receive_frame(self) -> Frame:
        """Wait for the next frame; raises an OSError once the peer is gone."""

    async def send_frame(self, frame: Frame) -> None:
        """Write one frame within the floor's deadline, or raise an OSError."""


class Ended(enum.Enum):
    """How a turn ended, as far as the gateway can prove."""

    NOT_HANDED_OVER = "not_handed_over"
    COMPLETED = "completed"
    UNPROVEN = "unproven"


@attrs.frozen(kw_only=True)
class TurnEnd:
    """How a turn ended, what it took, if the agent said so, and why, if it is unproven."""

    ended: Ended
    usage: TokenUse | None = None
    failure: Failure | None = None


class Ear(Protocol):
    """Hears what the agent says in a turn, as it comes; never waits."""

    def heard(self, text: str) -> None:
        """The agent said this, and goes on."""

    def done(self, text: str) -> None:
        """The agent's last word, which may repeat what was heard."""


def unproven(cause: Cause) -> TurnEnd:
    """The end of a turn of which the agent said nothing at all."""
    return TurnEnd(ended=Ended.UNPROVEN, failure=Failure(cause=cause))


NOT_HANDED_OVER = TurnEnd(ended=Ended.NOT_HANDED_OVER)


@attrs.frozen(kw_only=True)
class Turn:
    """What is asked of the agent; `deadline_seconds` is how long it has."""

    turn_id: str
    conversation: str
    title: str
    text: str
    deadline_seconds: float


@attrs.define
class _InHand:
    turn_id: str
    ear: Ear | None = None
    begun: bool = False  # the agent showed that it works on the turn
    end: TurnEnd | None = None
    over: trio.Event = attrs.field(factory=trio.Event)  # its end is known
    left: trio.Event = attrs.field(factory=trio.Event)  # nobody works on it here any more
    told: bool = False  # by `cancel` that its time is over
    stopped_by: Cause | None = None  # why it was told to stop

    def finish(self, end: TurnEnd) -> None:
        if self.end is None:
            self.end = end
            self.over.set()


class Gateway:
    """One connection of an agent. Its owner runs `read` until the peer is gone."""

    def __init__(self, *, agent: Agent, peer: Peer) -> None:
        self.agent = agent
        self.epoch = 0  # of the connection, once it was accepted
        self.superseded = False  # a newer connection of the agent is about to take its place
        self._peer = peer
        self._in_hand: _InHand | None = None
        self._closed = False

    async def until_idle(self) -> None:
        """Wait until no turn is in hand."""
        while self._in_hand is not None:
            await self._in_hand.left.wait()

    @property
    def can_take_turn(self) -> bool:
        """Whether a turn offered now would be written: connected, and no turn in hand."""
        return not self._closed and self._in_hand is None

    async def run_turn(self, turn: Turn, ear: Ear | None = None) -> TurnEnd:
        """Hand `turn` over and wait for its end, at most `turn.deadline_seconds`.

        `ear` hears what the agent says meanwhile. Then the agent is told to stop, and has
        CANCEL_GRACE_SECONDS to say how it ended. A cancelled caller tells the agent to stop; what
        became of the turn is then unproven.
        """
        if not self.can_take_turn:
            return NOT_HANDED_OVER
        in_hand = self._in_hand = _InHand(turn.turn_id, ear)
        try:
            with trio.move_on_after(turn.deadline_seconds):
                await self._peer.send_frame(
                    {
                        "type": "turn",
                        "turn_id": turn.turn_id,
                        "conversation": turn.conversation,
                        "title": turn.title,
                        "text": turn.text,
                        "deadline_seconds": turn.deadline_seconds,
                    }
                )
                await in_hand.over.wait()
            await self._stop(in_hand)
        except OSError:
            self.close()  # the write broke off: how much of it arrived is unknown
        finally:
            self._in_hand = None
            in_hand.left.set()
            if in_hand.end is None and not in_hand.told and not self._closed:
                await self._tell_cancel(turn.turn_id)
        return in_hand.end or unproven(Cause.DEADLINE)

    async def cancel_turn(self) -> None:
        """Tell the agent to stop the turn in hand, if there is one; its answer still counts."""
        if self._in_hand is not None and not self._closed:
            self._in_hand.stopped_by = Cause.STOPPED
            await self._tell_cancel(self._in_hand.turn_id)

    async def read(self) -> None:
        """Take the agent's frames until the peer is gone, which raises an OSError.

        Raises BadFrame too. Whatever ends it, the turn in hand ends with it.
        """
        try:
            while True:
                self._take(await self._peer.receive_frame())
        finally:
            self.close()

    def close(self) -> None:
        """Take no turn any more; the one in hand, if any, is unproven."""
        self._closed = True
        if self._in_hand is not None:
            self._in_hand.finish(unproven(self._in_hand.stopped_by or Cause.LOST))

    def _take(self, frame: Frame) -> None:
        kind = frame.get("type")
        if not isinstance(kind, str) or not kind.startswith("turn."):
            return
        turn_id = frame.get("turn_id")
        if not isinstance(turn_id, str):
            raise BadFrame(f"{kind} needs a turn_id that is a string")
        in_hand = self._in_hand
        known = in_hand if in_hand is not None and in_hand.turn_id == turn_id else None
        match kind:
            case "turn.started":
                _begin(known)
            case "turn.delta":
                text = _text(frame, "text")
                _begin(known)
                if (ear := _ear(known)) is not None:
                    ear.heard(text)
            case "turn.done":
                text, usage = _text(frame, "text"), _usage(frame)
                if (ear := _ear(known)) is not None:
                    ear.done(text)
                _end(known, Ended.COMPLETED, usage)
            case "turn.failed":
                error, usage = _text(frame, "error"), _usage(frame)
                _fail(known, Cause.REPORTED, usage, error=error)
            case "turn.busy":
                _busy(known)
            case _:
                return

    async def _stop(self, in_hand: _InHand) -> None:
        if in_hand.end is None and not self._closed:
            in_hand.told = True
            in_hand.stopped_by = in_hand.stopped_by or Cause.DEADLINE
            await self._tell_cancel(in_hand.turn_id)
            with trio.move_on_after(CANCEL_GRACE_SECONDS):
                await in_hand.over.wait()

    async def _tell_cancel(self, turn_id: str) -> None:
        # Told under a short shield: the caller may be cancelled, and the peer may not read.
        with trio.move_on_after(1, shield=True):
            try:
                await self._peer.send_frame({"type": "cancel", "turn_id": turn_id})
            except OSError:
                self.close()


def _begin(known: _InHand | None) -> None:
    if known is not None:
        known.begun = True


def _end(known: _InHand | None, ended: Ended, usage: TokenUse | None = None) -> None:
    if known is not None:
        known.finish(TurnEnd(ended=ended, usage=usage))


def _fail(
    known: _InHand | None, cause: Cause, usage: TokenUse | None = None, *, error: str = ""
) -> None:
    if known is not None:
        # Told to stop, an agent says that it failed; why it was told so is the reason.
        failure = Failure(cause=known.stopped_by or cause, error=bound_error(error))
        known.finish(TurnEnd(ended=Ended.UNPROVEN, usage=usage, failure=failure))


def _busy(known: _InHand | None) -> None:
    if known is not None and known.begun:
        _fail(known, Cause.BUSY)
    else:
        _end(known, Ended.NOT_HANDED_OVER)


def _ear(known: _InHand | None) -> Ear | None:
    """Whoever still listens: nobody once the turn's end is known."""
    return None if known is None or known.end is not None else known.ear


def _text(frame: Frame, member: str) -> str:
    text = frame.get(member)
    if not isinstance(text, str):
        raise BadFrame(f"{frame['type']} needs a member {member!r} that is a string")
    return text


def _usage(frame: Frame) -> TokenUse | None:
    if "usage" not in frame:
        return None
    try:
        return read_token_use(frame["usage"])
    except ValueError as error:
        raise BadFrame(f"{frame['type']}: {error}") from error


class Gateways:
    """The agents that are connected to this node; a newer connection takes an older one's place."""

    def __init__(self) -> None:
        self._by_agent: dict[int, Gateway] = {}
        self._agents_of: dict[int, set[int]] = {}

    def serves(self, owner_id: int) -> bool:
        """Whether any agent of the owner's is connected here."""
        return owner_id in self._agents_of

    def find(self, agent_id: int) -> Gateway | None:
        """The agent's connection here, if it has one."""
        return self._by_agent.get(agent_id)

    def agents(self) -> list[Agent]:
        """Who is connected here."""
        return [gateway.agent for gateway in self._by_agent.values()]

    async def until_idle(self) -> None:
        """Wait until no agent here has a turn in hand."""
        for gateway in tuple(self._by_agent.values()):
            await gateway.until_idle()

    async def cancel_turns(self) -> None:
        """Tell every agent here to stop its turn; those that do not read are not waited for."""
        async with trio.open_nursery() as nursery:
            for gateway in tuple(self._by_agent.values()):
                nursery.start_soon(gateway.cancel_turn)

    def enter(self, gateway: Gateway) -> None:
        """Put `gateway` in the place of any older connection of its agent."""
        agent = gateway.agent
        self._by_agent[agent.agent_id] = gateway
        self._agents_of.setdefault(agent.owner_id, set()).add(agent.agent_id)

    def leave(self, gateway: Gateway) -> None:
        """Take `gateway` out, unless a newer one took its place already."""
        agent = gateway.agent
        if self._by_agent.get(agent.agent_id) is not gateway:
            return
        del self._by_agent[agent.agent_id]
        agents = self._agents_of[agent.owner_id]
        agents.remove(agent.agent_id)
        if not agents:
            del self._agents_of[agent.owner_id]
