"""`/mcp`: the tools of connected agents, with the agent's token."""

from muster.principals import Agent
from web.auth import prove_agent
from web.mcp.door import Tools
from web.mcp.tools import call_tool, list_tools

AGENTS_TOOLS: Tools[Agent] = Tools(prove=prove_agent, list_tools=list_tools, call_tool=call_tool)
