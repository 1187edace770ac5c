"""The tools of the owner's own mirrored sessions, at `/mirror/mcp` alone, and of no agent.

What a session does there is its owner's act: the mirror token is the credential, without a fresh
sign-in (plugins: "Deciding a draft from your own session"). It keeps one session from answering
another's route by mistake, and every other host out; it is no boundary between two sessions of one
host.
"""

from muster.chief.tools.sessions.asking import ATTENTION_ANSWER, ATTENTION_WAIT, CHIEF_ASK
from muster.chief.tools.sessions.drafts import PLUGIN_DRAFT_DECIDE, PLUGIN_DRAFTS_LIST
from muster.chief.tools.sessions.routing import (
    PLUGIN_MESSAGE_ROUTE,
    PLUGIN_MESSAGES_LIST,
    ROUTE_REPLY,
)
from muster.chief.tools.sessions.tool import Change, Session, SessionCall, SessionTool

__all__ = ["TOOLS", "Change", "Session", "SessionCall", "SessionTool", "find_tool", "offered"]

TOOLS = (
    ROUTE_REPLY,
    CHIEF_ASK,
    ATTENTION_WAIT,
    ATTENTION_ANSWER,
    PLUGIN_DRAFTS_LIST,
    PLUGIN_DRAFT_DECIDE,
    PLUGIN_MESSAGES_LIST,
    PLUGIN_MESSAGE_ROUTE,
)


def offered(*, plugins: bool, routing: bool) -> tuple[SessionTool, ...]:
    """The tools that there are, while plugins and routing are on or off."""
    return tuple(
        tool
        for tool in TOOLS
        if (plugins or not tool.of_plugins) and (routing or not tool.of_routing)
    )


def find_tool(name: str, *, plugins: bool, routing: bool) -> SessionTool | None:
    """The tool of that name, if it is offered."""
    found = (tool for tool in offered(plugins=plugins, routing=routing) if tool.name == name)
    return next(found, None)
