"""An owner with a host that shows one idle session, and the verbs of its queue in short."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from muster.attention import operations as attention
from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.mirror.operations import pasting, queue, sends, unconfirmed
from muster.mirror.operations.hosts import accept_host
from muster.mirror.operations.windows import store_windows
from muster.mirror.rules import AcceptHost, Pane, PaneState, StoreWindows, Window
from muster.mirror.send_rules import Enqueue, QueuedSend, Recover, ResolveSend, Send
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Agent, Muster, Owner, Plugin
from tests.support.builders import make_chief, make_message, make_plugin, read_audit, read_now
from tests.support.cluster import SpiedDatabase
from tests.support.mirror_host import find_mirrored, new_host, new_session

STEPUP_SECONDS = 12 * 3600
GET_SEND = Query("""
    select id, owner_id, mirrored_id, text, queued_by, queued_via, signed_in_at, route_id, state,
           created_at, host_id, epoch, offers, offered_at, ended_at, why, ask_id
    from sends where owner_id = %(owner_id)s and id = %(send_id)s
""")
INSERT_ROUTE = Query("""
    insert into session_routes (owner_id, message_id, agent_id, mirrored_id, routed_by, state,
                                created_at, deadline_at)
    values (%(owner_id)s, %(message)s, %(agent)s, %(mirrored)s, 'chief', 'routed', %(now)s,
            %(now)s + interval '30 days')
    returning id
""")
END_ROUTE = Query("""
    update session_routes set state = 'failed', ended_at = %(now)s
    where owner_id = %(owner_id)s and id = %(route_id)s
""")


def window_of(session: str | None, number: int = 1, **pane: object) -> Window:
    """A window whose one pane shows the session, idle for a minute unless told otherwise."""
    members: dict[str, object] = {
        "tmux_pane": f"%{number}",
        "active": True,
        "claude_session": session,
        "state": PaneState.IDLE,
        "idle_seconds": 60.0,
        "cwd": "/srv/work",
        "repo": "example/work",
    } | pane
    if members["state"] is not PaneState.IDLE:
        members["idle_seconds"] = None
    return Window(
        tmux_window=f"@{number}",
        title=f"main:{number}",
        label=None,
        panes=[Pane(**members)],  # type: ignore[arg-type]
    )


@attrs.define(kw_only=True)
class SendDesk:
    """`epoch` is that of the host's newest socket."""

    db: SpiedDatabase
    owner: Owner
    host_id: int
    epoch: int
    session: str
    mirrored_id: int
    _mail: tuple[Agent, Plugin] | None = None

    @property
    def muster(self) -> Muster:
        """The principal of pastes and sweeps."""
        return Muster(owner_id=self.owner.owner_id)

    async def put(self, text: str = "go on", signed_in_at: datetime | None = None) -> Send:
        """The owner queues a text."""
        command = queue.QueueText(
            mirrored_id=self.mirrored_id, text=text, signed_in_at=signed_in_at
        )
        return await self.db.run(self.owner, queue.queue_text, command)

    async def route(self, text: str = "a message") -> Send:
        """A message of a plugin's is routed to the session, and its text queued."""
        if self._mail is None:
            chief = await make_chief(self.db, self.owner)
            self._mail = chief, await make_plugin(self.db, self.owner)
        chief, plugin = self._mail
        message = await make_message(self.db, plugin, delivered_to=chief)

        async def route(tx: Transaction, text: str) -> Send:
            ids = {"message": message.id, "agent": chief.agent_id}
            route_id = await tx.scalar(INSERT_ROUTE, **ids, mirrored=self.mirrored_id)
            enqueue = Enqueue(mirrored_id=self.mirrored_id, text=text, route_id=route_id)
            return await sends.enqueue(tx, enqueue)

        return await self.db.run(self.muster, route, text)

    async def end_route(self, route_id: int) -> None:
        """The route fails, without taking its text out of the queue."""
        async with self.db.transaction(self.muster) as tx:
            await tx.execute(END_ROUTE, route_id=route_id)

    async def offer(self, **changes: object) -> Send | None:
        """The session's actor takes the next text."""
        given = {
            "mirrored_id": self.mirrored_id,
            "host_id": self.host_id,
            "epoch": self.epoch,
            "stepup_window_seconds": STEPUP_SECONDS,
        } | changes
        return await self.db.run(self.muster, pasting.offer, pasting.Offer(**given))  # type: ignore[arg-type]

    async def offered(self, text: str = "go on") -> Send:
        """A new text, in the host's hand."""
        await self.put(text)
        send = await self.offer()
        assert send is not None
        return send

    async def settle(self, send: Send, outcome: pasting.Outcome, detail: str = "") -> None:
        """The host says what became of a text."""
        assert send.host_id is not None
        assert send.epoch is not None
        command = pasting.Settle(
            send_id=send.id,
            host_id=send.host_id,
            epoch=send.epoch,
            outcome=outcome,
            detail=detail,
        )
        await self.db.run(self.muster, pasting.settle, command)

    async def doubted(self, text: str = "go on") -> Send:
        """A new text of which nobody knows whether it arrived."""
        send = await self.offered(text)
        await self.settle(send, "unconfirmed", "no proof in 20 s")
        return await self.get(send.id)

    async def resolve(self, send: Send, *, arrived: bool) -> Send:
        """The owner says on the session's page what became of a text."""
        command = ResolveSend(send_id=send.id, arrived=arrived)
        return await self.db.run(self.owner, unconfirmed.resolve_send, command)

    async def answer(self, ask_id: int, text: str) -> None:
        """The owner answers an ask."""
        await self.db.run(self.owner, answer_ask, AnswerAsk(ask_id=ask_id, text=text))

    async def cut_off(self) -> None:
        """The host connects anew; what it had in hand is settled as its actor does."""
        accept = accepting(self.host_id)

        async def again(tx: Transaction, command: AcceptHost) -> int:
            host = await accept_host(tx, command)
            await unconfirmed.recover(tx, Recover(host_id=host.id, epoch=host.epoch))
            return host.epoch

        self.epoch = await self.db.run(self.muster, again, accept)

    async def get(self, send_id: int) -> Send:
        """A text as it is stored."""
        async with self.db.transaction(self.owner) as tx:
            return await tx.one(GET_SEND, Send, send_id=send_id)

    async def listed(self, *, ended: bool = False) -> list[QueuedSend]:
        """The queue, or what ended, as the owner sees it."""
        command = queue.ListQueue(
            mirrored_id=self.mirrored_id, stepup_window_seconds=STEPUP_SECONDS, ended=ended
        )
        return await self.db.run(self.owner, queue.list_queue, command)

    async def actions(self, send_id: int) -> list[str]:
        """What was recorded of a text, oldest first."""
        rows = await read_audit(self.db, self.owner, "send.")
        return [row.action.removeprefix("send.") for row in rows if row.data["send"] == send_id]

    async def asks(self, *, ended: bool = False) -> Sequence[attention.AskView]:
        """What muster asks, or asked."""
        command = attention.ListAsks(ended=ended)
        return await self.db.run(self.owner, attention.list_asks, command)

    async def ago(self, **since: float) -> datetime:
        """A time that long before now."""
        return await read_now(self.db) - timedelta(**since)


def accepting(host_id: int, *, interactive: bool = True) -> AcceptHost:
    """The host's next hello."""
    return AcceptHost(
        host_id=host_id,
        node="tests",
        machine="box.test",
        interactive=interactive,
        resume_spawn=False,
    )


async def show(
    db: SpiedDatabase, owner: Owner, host_id: int, *windows: Window, epoch: int = 1
) -> dict[str, int] | None:
    """The host's list is written down."""
    command = StoreWindows(host_id=host_id, epoch=epoch, windows=windows)
    return await db.run(Muster(owner_id=owner.owner_id), store_windows, command)


async def open_send_desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk of this owner's, at a host's first socket."""
    host_id, _ = await new_host(db, owner)
    muster = Muster(owner_id=owner.owner_id)
    host = await db.run(muster, accept_host, accepting(host_id))
    session = new_session()
    await show(db, owner, host_id, window_of(session))
    return SendDesk(
        db=db,
        owner=owner,
        host_id=host_id,
        epoch=host.epoch,
        session=session,
        mirrored_id=await find_mirrored(db, owner, session),
    )
