"""`/mirror/mcp`: the tools of the owner's own mirrored sessions, with their host's token.

The header `Muster-Pane` names the caller's tmux pane, as TMUX_PANE does there; the session is the
one that this pane shows by the host's last list. So one session of a host could name another's
pane: the token's host is the boundary (muster/chief/tools/sessions).
"""

from collections.abc import Mapping
from typing import Final

from muster.chief.tools.sessions import Session, SessionCall, find_tool, offered
from muster.errors import MusterError, Refused
from muster.mirror.operations.sessions import AtPane, find_at_pane
from muster.node.node import Node
from web.auth import Headers, prove_host
from web.mcp.door import Tools
from web.mcp.results import Members, contained, decode, describe, no_tool, refused, told

PANE_HEADER: Final = b"muster-pane"
PANE_CHARACTERS_MAX: Final = 40


async def prove_session(node: Node, headers: Headers) -> Session:
    """The session that calls. Raises Unauthorized, and Refused (`no_session`) without one."""
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
    return Session(
        owner_id=host.owner_id,
        host=host.name,
        mirrored_id=found.id,
        claude_session=found.claude_session,
    )


async def list_tools(node: Node, _session: Session) -> Members:
    """The result of `tools/list`. Raises ToolsBroke."""
    with contained(node, "mirror/mcp tools/list"):
        tools = offered(plugins=node.config.plugins, routing=node.config.routing)
        return {"tools": [describe(t.name, t.description, t.arguments) for t in tools]}


async def call_tool(
    node: Node, session: Session, name: str, arguments: Mapping[str, object]
) -> Members:
    """The result of `tools/call`. Raises ToolsBroke."""
    with contained(node, "mirror/mcp tools/call"):
        config = node.config
        tool = find_tool(name, plugins=config.plugins, routing=config.routing)
        if tool is None:
            return no_tool(name)
        with node.live.listening(session.owner_id, NO_BROWSER) as listener:

            async def changed() -> None:
                await listener.wait()
                listener.take()

            try:
                call = SessionCall(
                    db=node.db,
                    session=session,
                    arguments=decode(arguments, tool.arguments),
                    relays=node.relays,
                    changed=changed,
                )
                return told(await tool.run(call))
            except MusterError as refusal:
                return refused(refusal)


NO_BROWSER: Final = 0
SESSIONS_TOOLS: Tools[Session] = Tools(
    prove=prove_session, list_tools=list_tools, call_tool=call_tool
)
