"""`/mirror/mcp`: the tools of the owner's own mirrored sessions, with their host's token.

The header `Muster-Pane` names the caller's tmux pane, as TMUX_PANE does there; the session is the
one that this pane shows by the host's last list. So one session of a host could name another's
pane: the token's host is the boundary (muster/chief/tools/sessions).
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from muster.chief.tools.sessions import Change, Session, SessionCall, find_tool, offered
from muster.errors import MusterError, Refused
from muster.mirror.operations.sessions import AtPane, find_at_pane
from muster.node.live import WAITS_MAX
from muster.node.node import Node
from web.auth import Headers, prove_host
from web.departures import WhileThere
from web.mcp.door import Called, Tools
from web.mcp.results import Members, contained, decode, describe, no_tool, refused, told

PANE_HEADER: Final = b"muster-pane"
PANE_CHARACTERS_MAX: Final = 40


@attrs.frozen
class Caller:
    """The session that calls, and the headers with its token."""

    session: Session
    headers: Headers


async def prove_session(node: Node, headers: Headers) -> Caller:
    """Who calls. Raises Unauthorized, and Refused (`no_session`) without a session."""
    named = list(headers)
    host = await prove_host(node, named)
    panes = [value.decode("latin-1").strip() for name, value in named if name == PANE_HEADER]
    if len(panes) != 1 or not 1 <= len(panes[0]) <= PANE_CHARACTERS_MAX or "\0" in panes[0]:
        raise Refused(
            "The header Muster-Pane must name the tmux pane of the session that calls, once.",
            code="no_session",
        )
    pane = AtPane(host_id=host.host_id, pane=panes[0])
    found = await node.db.run(host, find_at_pane, pane)
    if found is None:
        raise Refused(
            f"No online window of {host.name} shows a Claude Code session in this pane; is"
            " muster mirror running there?",
            code="no_session",
        )
    session = Session(
        owner_id=host.owner_id,
        host=host.name,
        mirrored_id=found.id,
        claude_session=found.claude_session,
    )
    return Caller(session, named)


async def list_tools(node: Node, _caller: Caller) -> Members:
    """The result of `tools/list`. Raises ToolsBroke."""
    with contained(node, "mirror/mcp tools/list"):
        tools = offered(plugins=node.config.plugins, routing=node.config.routing)
        return {"tools": [describe(t.name, t.description, t.arguments) for t in tools]}


async def call_tool(node: Node, caller: Caller, called: Called) -> Members:
    """The result of `tools/call`. Raises ToolsBroke."""
    with contained(node, "mirror/mcp tools/call"):
        config = node.config
        tool = find_tool(called.name, plugins=config.plugins, routing=config.routing)
        if tool is None:
            return no_tool(called.name)
        owner_id = caller.session.owner_id
        try:
            call = SessionCall(
                db=node.db,
                session=caller.session,
                arguments=decode(called.arguments, tool.arguments),
                relays=node.relays,
                changes=functools.partial(_changes, node, owner_id, called.while_there),
                prove=functools.partial(prove_host, node, caller.headers),
            )
            return told(await tool.run(call))
        except MusterError as refusal:
            return refused(refusal)


@contextmanager
def _changes(node: Node, owner_id: int, while_there: WhileThere) -> Iterator[Change]:
    """Hear of what changes of the owner's, until the client leaves or the server stops."""
    if node.live.count_waits(owner_id) >= WAITS_MAX:
        sentence = "Too many calls wait for an answer already; let some of them end."
        raise Refused(sentence, code="too_many_waits")
    with node.live.listening(owner_id, None) as listener:

        async def changed() -> bool:
            if not node.draining and not listener.ended:
                with while_there():
                    await listener.wait()
                    listener.take()
                    return not listener.ended
            return False

        yield changed


SESSIONS_TOOLS: Tools[Caller] = Tools(
    prove=prove_session, list_tools=list_tools, call_tool=call_tool
)
