"""An owner's plugin agent-mail at a running server, and what muster may do with its mail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import attrs

from muster.chief.operations.receiving import Receive, SelfRouting, receive
from muster.credentials.operations import issue
from muster.credentials.rules import Issue
from muster.ids import CredentialKind
from muster.messages.rules import Message, Post
from muster.messages.rules import State as MessageState
from muster.node.ask_sweeps import ask_about_unrouted
from muster.pg.query import Query
from muster.principals import Muster, Owner, Plugin
from muster.routes.operations.authors import Did, ReportAuthor, report_author
from muster.routes.operations.threads import BindThread, bind_thread
from tests.support.builders import get_message, make_plugin, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, new_host, new_session
from tests.support.server import Server, running_server
from tests.support.waiting import until

GATE = "example/gate"
SHA = "0123456789abcdef0123456789abcdef01234567"
RESUMES = Query("""
    select r.id, r.message_id, r.claude_session, r.cause, r.state, r.asked, r.host_id,
           r.started_at, r.joined_id, r.why
    from mail_resumes r where r.owner_id = %(owner_id)s order by r.id
""")


@attrs.frozen(kw_only=True)
class ResumeRow:
    """A resume as it is stored."""

    id: int
    message_id: int
    claude_session: str
    cause: str
    state: str
    asked: list[int]
    host_id: int | None
    started_at: datetime | None
    joined_id: int | None
    why: str | None


ROUTES = Query("""
    select id, message_id, routed_by, routed_via, state, created_at, deadline_at, why, handback
    from session_routes where owner_id = %(owner_id)s order by id
""")
SENDS = Query("select state from sends where owner_id = %(owner_id)s order by id")


@attrs.frozen(kw_only=True)
class RouteRow:
    """A route as it is stored."""

    id: int
    message_id: int
    routed_by: str
    routed_via: str
    state: str
    created_at: datetime
    deadline_at: datetime
    why: str | None
    handback: str


@attrs.frozen(kw_only=True)
class SendState:
    """Where a queued text stands."""

    state: str


def allow_gate(_user_id: int, plugin: str, sender: str) -> bool:
    """Mail of the gate's may have a session resumed."""
    return (plugin, sender) == ("agent-mail", GATE)


ROUTING = SelfRouting(routing=True, pr_mail_senders=frozenset({GATE}))
RESUMING = attrs.evolve(ROUTING, resume_allow=allow_gate)


def review(pr: int = 12, repo: str = "example/garden", head_ref: str | None = None) -> str:
    """The body of a review gate's mail."""
    ref = "" if head_ref is None else f', "head_ref": "{head_ref}"'
    block = f'{{"repo": "{repo}", "pr": {pr}, "head_sha": "{SHA}"{ref}}}'
    return f"Please look at the roses.\n\n```json\n{block}\n```\n"


@attrs.frozen(kw_only=True)
class MailDesk:
    """The server, the plugin agent-mail, and its owner."""

    db: SpiedDatabase
    owner: Owner
    server: Server
    plugin: Plugin

    @property
    def muster(self) -> Muster:
        """The principal of what muster does by itself."""
        return Muster(owner_id=self.owner.owner_id)

    async def receive(
        self, settings: SelfRouting = RESUMING, *, plugin: Plugin | None = None, **fields: object
    ) -> int:
        """A message that the gate sends, or another; its id."""
        post: dict[str, object] = {
            "external_id": "m1",
            "sender": GATE,
            "sender_verified": True,
            "body": "The roses are red.",
        }
        command = Receive(post=Post(**(post | fields)), settings=settings)  # type: ignore[arg-type]
        posted = await self.server.node.db.run(plugin or self.plugin, receive, command)
        return posted.id

    async def shift(self, by: timedelta) -> None:
        """Move the clock; the server is alive then, too."""
        self.db.clock_offset += by
        await self.server.node.heartbeat.beat()

    async def message(self, message_id: int) -> Message:
        """The message as it stands."""
        return await get_message(self.db, self.owner, message_id)

    async def is_ordinary(self, message_id: int) -> bool:
        """Whether a message waits for the chief like any other."""
        message = await self.message(message_id)
        return message.state is MessageState.QUEUED and message.held_until is None

    async def until_delivered(self, message_id: int) -> None:
        """Wait until the chief has a message."""

        async def is_delivered() -> bool:
            return (await self.message(message_id)).state is MessageState.DELIVERED

        await until(is_delivered)

    async def bind(self, session: str, thread: str = "t-1") -> None:
        """A session that a window shows started a thread."""
        command = BindThread(thread=thread, claude_session=session)
        assert await self.server.node.db.run(self.owner, bind_thread, command)

    async def ended(self, thread: str = "t-1") -> str:
        """A session that started a thread, on a host that is away since."""
        session = new_session()
        async with self.host(session, name=f"old-{session[:8]}") as host:
            await self.bind(session, thread)
            await host.show()
        return session

    async def author(self, session: str, pr: int = 12, **fields: object) -> None:
        """A session created a pull request."""
        command = ReportAuthor(
            repo="example/garden", kind=Did.CREATED, claude_session=session, pr=pr
        )
        await self.server.node.db.run(
            self.owner,
            report_author,
            attrs.evolve(command, **fields),  # type: ignore[arg-type]
        )

    async def resumes(self) -> list[ResumeRow]:
        """The owner's resumes, oldest first."""
        async with self.db.transaction(self.owner) as tx:
            return await tx.all(RESUMES, ResumeRow)

    async def until_resume(self, state: str, number: int = 0) -> ResumeRow:
        """Wait until a resume is in that state; the row."""

        async def is_there() -> bool:
            rows = await self.resumes()
            return len(rows) > number and rows[number].state == state

        await until(is_there)
        return (await self.resumes())[number]

    async def routes(self) -> list[RouteRow]:
        """The owner's routes, oldest first."""
        async with self.db.transaction(self.owner) as tx:
            return await tx.all(ROUTES, RouteRow)

    async def sends(self) -> list[str]:
        """The states of the owner's queued texts, oldest first."""
        async with self.db.transaction(self.owner) as tx:
            return [row.state for row in await tx.all(SENDS, SendState)]

    async def sweep_unrouted(self) -> None:
        """A round of the sweep that asks about what nobody acted on."""
        await ask_about_unrouted(self.db)

    async def new_token(self) -> str:
        """A token of the plugin's."""
        command = Issue(kind=CredentialKind.PLUGIN, holder_id=self.plugin.plugin_id)
        issued = await self.db.run(self.owner, issue, command)
        return issued.token.text

    async def told(self, prefix: str) -> list[str]:
        """The actions in the audit log that begin so, oldest first."""
        return [row.action for row in await read_audit(self.db, self.owner, prefix)]

    @asynccontextmanager
    async def host(
        self, *sessions: str, name: str = "box", resume_spawn: bool = True, **kind: bool
    ) -> AsyncIterator[ScriptedHost]:
        """A new host that shows these sessions."""
        _, token = await new_host(self.db, self.owner, name)
        async with ScriptedHost(self.server.url, token) as host:
            await host.hello(resume_spawn=resume_spawn, **kind)
            await host.show(*sessions)
            yield host


@asynccontextmanager
async def mail_desk(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, **settings: str
) -> AsyncIterator[MailDesk]:
    """A desk with routing on."""
    plugin = await make_plugin(db, owner, "agent-mail")
    known = {"MUSTER_SESSION_ROUTING": "1", "MUSTER_PR_MAIL_SENDERS": GATE}
    async with running_server(db, cluster.app_url, **(known | settings)) as server:
        await server.node.heartbeat.beat()  # hosts are online once their server is known to live
        yield MailDesk(db=db, owner=owner, server=server, plugin=plugin)
