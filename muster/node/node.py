"""One running server: what the doors reach, and how it drains.

The doors get this object: the database, whoever waits or is connected here, and the claims. It owns
no truth; a node that is killed at any moment leaves everything in the database.
"""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from actors import ChildSpec, Log, Tree, Undelivered, open_tree
from muster.agents.gateway import CANCEL_GRACE_SECONDS, Gateways
from muster.chief.answers import Piece
from muster.chief.deliveries import DeliverySettings
from muster.chief.fleet_mail import FleetMail, answering
from muster.chief.operations.receiving import NotRoutable, Receive, SelfRouting, receive
from muster.chief.operations.routing.answering import RelaySettings
from muster.config import Config
from muster.drafts.actor import Waiters, claim
from muster.drafts.operations import Claimed
from muster.errors import Unavailable
from muster.messages.operations import Posted
from muster.messages.rules import Post
from muster.mirror.gateway import Links
from muster.mirror.session_actor import SessionSettings
from muster.node.fanout import Fanout
from muster.node.live import Live
from muster.node.nodes import Heartbeat, Outbox, Outgoing, Outgoings
from muster.node.owners import Owners
from muster.node.resumes import Resumes, ResumeSettings
from muster.node.sweeps import Seen
from muster.node.tree import tree_spec
from muster.outcomes import Hint, HintKind
from muster.pg.database import Database
from muster.pg.migrate import newest_version
from muster.pg.query import Query
from muster.principals import Node as NodePrincipal
from muster.principals import Plugin
from muster.push.actor import Pusher
from muster.push.presence import Presence

READY_SECONDS = 2.0
DISMISS_SECONDS = 6.0

_SCHEMA_VERSION = Query("select max(version) from migrations")


@attrs.define(kw_only=True)
class Node:
    """A server's parts, for its doors. `node_id` is new for each start."""

    node_id: str
    config: Config
    db: Database
    log: Log
    waiters: Waiters = attrs.field(factory=Waiters)
    gateways: Gateways = attrs.field(factory=Gateways)
    links: Links = attrs.field(factory=Links)
    seen: Seen = attrs.field(factory=Seen)
    presence: Presence = attrs.field(factory=Presence)
    draining: bool = False
    schema_version: int = attrs.field(factory=newest_version)
    live: Live = attrs.field(init=False)
    fanout: Fanout = attrs.field(init=False)
    heartbeat: Heartbeat = attrs.field(init=False)
    outgoings: Outgoings = attrs.field(factory=Outgoings)
    owners: Owners = attrs.field(init=False)
    tree: Tree = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.live = Live(self.node_id)
        self.fanout = Fanout(self.waiters, self.live)
        self.heartbeat = Heartbeat(node_id=self.node_id, db=self.db)

    def publish(self, hints: Sequence[Hint]) -> None:
        """Spread hints of this node's, here and to the other nodes; never waits."""
        self.fanout.publish(hints)
        if not self.heartbeat.alone:
            self.outgoings.add(hints)
            try:
                self.tree.address("root/outbox").tell(Outgoing(), key="outgoing")
            except Undelivered:
                return

    def tell_of_turn(self, piece: Piece) -> bool:
        """Pass a running turn's words on to its owner's open pages; whether there are any."""
        data: dict[str, object] = {
            "turn": piece.turn_id,
            "conversation": piece.conversation_id,
            "at": piece.at,
            "text": piece.text,
        }
        return self.live.pass_on(piece.owner_id, "turn.delta", data)

    async def claim(
        self, principal: Plugin, wait_seconds: float, prove: Callable[[], Awaitable[object]]
    ) -> Claimed | None:
        """Claim a reply (step 4); the retry of what is queued begins, and is not waited for.

        The retry begins on every node: the chief may be connected to another one.
        """
        owner_id = principal.owner_id
        self.publish([Hint(kind=HintKind.CLAIM_BEGUN, owner_id=owner_id, id=owner_id)])
        return await claim(self.db, self.waiters, principal, wait_seconds=wait_seconds, prove=prove)

    @property
    def relays(self) -> RelaySettings:
        """Whose messages are answered by their sessions without asking their owner."""
        return RelaySettings(allow=self.config.route_relay_allow, deny_words=self.config.deny_words)

    async def receive(self, principal: Plugin, post: Post) -> Posted:
        """Store a posted message, and do with it what this server may do by itself.

        A session that is lost while the route is made leaves it a message like any other.
        """
        command = Receive(post=post, settings=self.self_routing)
        try:
            return await self.db.run(principal, receive, command)
        except NotRoutable:
            plain = Receive(post=post, settings=SelfRouting())
            return await self.db.run(principal, receive, plain)

    @property
    def self_routing(self) -> SelfRouting:
        """What this server does by itself with a new message."""
        config = self.config
        fleet = FleetMail(senders=config.fleet_report_senders, paths=config.fleet_report_paths)
        return SelfRouting(
            answer_request=answering(fleet) if config.answers_fleet_requests else None,
            routing=config.routing,
            pr_mail_senders=config.pr_mail_senders,
            resume_allow=config.mail_resume_allow.allows,
            resume_off=config.mail_resume_off,
        )

    def resumes(self) -> Resumes:
        """Who carries the resumes of ended sessions on."""
        settings = ResumeSettings(
            is_off=self.config.mail_resume_off,
            routing=self.config.routing,
            may_begin=lambda: not self.draining,
        )
        return Resumes(self.db, self.links, node=self.node_id, settings=settings)

    async def unready(self) -> list[str]:
        """Why this node should get no traffic now; empty when it may."""
        reasons = ["the server is stopping"] if self.draining else []
        with trio.move_on_after(READY_SECONDS) as patience:
            try:
                async with self.db.transaction(NodePrincipal(), look=True) as tx:
                    stored = await tx.scalar(_SCHEMA_VERSION)
                if stored != self.schema_version:
                    reasons.append(
                        f"the schema is version {stored}, and this server needs"
                        f" {self.schema_version}"
                    )
            except Unavailable:
                # Without the driver's words: whoever asks has shown no credential.
                reasons.append("the database is away")
        if patience.cancelled_caught:
            reasons.append(f"the database did not answer within {READY_SECONDS:g} s")
        missing = [path for path in _NEEDED if not self.tree.address(path).reachable]
        return reasons + [f"{path} is not running" for path in missing]

    async def drain(self) -> None:
        """End waits, begin no turn, and wait for running turns, at most the configured time.

        Claims that are parked or arrive now answer without a wait. Turns that are left when the
        time is over, or when the caller is cancelled, are told to stop, end with their sockets,
        and are settled as unconfirmed.
        """
        self.draining = True
        self.waiters.drain()
        self.live.end()
        try:
            with trio.move_on_after(self.config.drain_seconds):
                await self.gateways.until_idle()
        finally:
            with trio.move_on_after(DISMISS_SECONDS, shield=True):
                await self.gateways.cancel_turns()
                # An agent that stops at once still tells the tokens that its turn took.
                with trio.move_on_after(CANCEL_GRACE_SECONDS):
                    await self.gateways.until_idle()
                await self.owners.dismiss_agents()


_NEEDED = ("root/database/supervision-sink", "root/sweeps", "root/owners")


@asynccontextmanager
async def open_node(
    node: Node,
    *,
    database: Sequence[ChildSpec],
    notify: Callable[[Sequence[Hint]], Awaitable[None]],
) -> AsyncIterator[Node]:
    """Run the node's tree around the block; `notify` reaches the other nodes."""
    outbox = ChildSpec(name="outbox", start=functools.partial(Outbox, notify, node.outgoings))
    pusher = ChildSpec(
        name="pusher",
        start=lambda: Pusher(node.db, node.presence, lambda: node.config.public_url),
    )
    spec = tree_spec(
        database=database,
        outbox=outbox,
        pusher=pusher,
        resumes=ChildSpec(name="resumes", start=node.resumes),
        db=node.db,
        waiters=node.waiters,
        seen=node.seen,
        heartbeat=node.heartbeat,
        stepup_window_seconds=node.config.stepup_window_seconds,
        relays=node.relays,
    )
    async with open_tree(spec, node.log) as tree:
        node.tree = tree
        node.owners = Owners(
            tree=tree,
            db=node.db,
            gateways=node.gateways,
            links=node.links,
            node_id=node.node_id,
            settings=DeliverySettings(
                turn_deadline_seconds=node.config.turn_deadline_seconds,
                may_begin=lambda: not node.draining,
                tell=node.tell_of_turn,
                review_senders=node.config.pr_mail_senders if node.config.routing else frozenset(),
                session_focus=node.config.session_focus,
            ),
            pasting=SessionSettings(
                idle_seconds=node.config.send_queue_idle_seconds,
                stepup_window_seconds=node.config.stepup_window_seconds,
                may_begin=lambda: not node.draining,
            ),
        )
        rounds = {
            HintKind.ROUTE_ENDED: tree.address("root/sweeps/routes"),
            HintKind.USER_CHANGED: tree.address("root/sweeps/sends"),
            HintKind.RESUME_WANTED: tree.address("root/sweeps/resumes"),
        }
        node.fanout.attach(node.owners, tree.address("root/push/pusher"), rounds)
        yield node
        await node.heartbeat.leave()
