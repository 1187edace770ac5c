"""An owner with a chief, a plugin and a session to which its messages can be routed."""

from datetime import timedelta

import attrs

from muster.allowlists import Allowlist
from muster.chief.operations.routing.answering import (
    AnswerRoute,
    RelaySettings,
    answer_and_relay,
    answer_route,
)
from muster.chief.operations.routing.ending import OwnerAnswered, Stamped, owner_answered
from muster.chief.operations.routing.listing import RouteView, look_at_route
from muster.chief.operations.routing.making import RouteMessage, route_message
from muster.messages.rules import Message
from muster.mirror.rules import subject_of
from muster.node.nodes import beat
from muster.node.route_sweeps import sweep_routes
from muster.pg.query import Query
from muster.principals import Agent, Muster, Node, Owner, Plugin
from muster.routes.rules import By, Route
from tests.support.builders import make_chief, make_message, make_plugin, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.send_desk import SendDesk, open_send_desk

NODE = "tests"
SENDER = "Ada <ada@example.test>"
TURNS = Query("""
    select t.state, t.said_by, t.words, c.kind, t.agent_id
    from turns t join conversations c on c.owner_id = t.owner_id and c.id = t.conversation_id
    where t.owner_id = %(owner_id)s order by t.id
""")


@attrs.frozen(kw_only=True)
class TurnSeen:
    """A turn or a note as it is stored."""

    state: str
    said_by: str | None
    words: str | None
    kind: str
    agent_id: int


@attrs.frozen(kw_only=True)
class RouteDesk:
    """The session's queue is `queue`; the chief is not connected unless a test says so."""

    db: SpiedDatabase
    owner: Owner
    chief: Agent
    plugin: Plugin
    queue: SendDesk
    allow: Allowlist = attrs.field(factory=Allowlist)

    @property
    def muster(self) -> Muster:
        """The principal of sweeps and relays."""
        return Muster(owner_id=self.owner.owner_id)

    @property
    def subject(self) -> str:
        """The session's name for agents."""
        return subject_of(self.queue.session)

    @property
    def allowing(self) -> "RouteDesk":
        """The same desk, where the sender may be answered unasked."""
        entry = f"{self.owner.owner_id}:{self.plugin.name}:ada@example.test"
        return attrs.evolve(self, allow=Allowlist.parse(entry))

    async def message(self, **fields: object) -> Message:
        """A message that the chief has."""
        known: dict[str, object] = {"sender": SENDER, "sender_verified": True}
        return await make_message(
            self.db,
            self.plugin,
            delivered_to=self.chief,
            **(known | fields),  # type: ignore[arg-type]
        )

    async def route(self, message: Message | None = None, **changes: object) -> Route:
        """The chief routes a message to the session."""
        chosen = message or await self.message()
        command = RouteMessage(message_id=chosen.id, subject=self.subject, by=By.CHIEF)
        return await self.db.run(
            self.chief,
            route_message,
            attrs.evolve(command, **changes),  # type: ignore[arg-type]
        )

    async def answer(
        self, route: Route, body: str = "Noon works.", *, session: str | None = None
    ) -> Route:
        """A session answers, or a program of the owner's does."""
        command = AnswerRoute(
            route_id=route.id,
            body=body,
            via="tests",
            deny_words=frozenset(),
            claude_session=session,
        )
        return await answer_and_relay(self.db, self.owner, command, self.allow)

    async def keep(self, route: Route, body: str = "Noon works.") -> None:
        """An answer is taken, and its relay has to wait."""
        command = AnswerRoute(route_id=route.id, body=body, via="tests", deny_words=frozenset())
        await self.db.run(self.owner, answer_route, command)

    async def stamp(self, message: Message, thread: str = "dm-1") -> Stamped:
        """The plugin says that the sender was answered directly."""
        command = OwnerAnswered(message_id=message.id, thread=thread)
        return await self.db.run(self.plugin, owner_answered, command)

    async def sweep(self) -> str | None:
        """One round of the sweep of routes."""
        settings = RelaySettings(allow=self.allow, deny_words=frozenset())
        return await sweep_routes(self.db, settings)

    async def shift(self, by: timedelta, *, alive: bool = True) -> None:
        """Move the clock; the host's server is alive then, unless told otherwise."""
        self.db.clock_offset += by
        if alive:
            await self.db.run(Node(), beat, NODE)

    async def look(self, route: Route) -> RouteView:
        """The route as it stands."""
        return await self.db.run(self.owner, look_at_route, route.id)

    async def told(self) -> list[TurnSeen]:
        """What was said to the chief, and noted for it."""
        async with self.db.transaction(self.owner) as tx:
            return await tx.all(TURNS, TurnSeen)

    async def actions(self, prefix: str = "session_route.") -> list[str]:
        """What was recorded of routes, oldest first."""
        rows = await read_audit(self.db, self.owner, prefix)
        return [row.action.removeprefix(prefix) for row in rows]


async def open_route_desk(db: SpiedDatabase, owner: Owner) -> RouteDesk:
    """A desk of this owner's, whose session is idle in an online window."""
    queue = await open_send_desk(db, owner)
    chief, plugin = await make_chief(db, owner), await make_plugin(db, owner)
    desk = RouteDesk(db=db, owner=owner, chief=chief, plugin=plugin, queue=queue)
    await desk.shift(timedelta())
    return desk
