"""Agents: rows, and the counter of their gateway sockets.

An agent is live until it is retired. At most one live agent of an owner is the chief; moving the
chief leaves the former one a plain agent, whose open turn ends as it would have.

`epoch` counts the sockets that an agent ever opened, `node` is the server that holds the newest.
Accepting a socket raises the epoch, and whoever begins or settles a turn names the epoch it was
handed by: what an older socket says late changes nothing. A release by an older socket is the same
kind of late word, so it is passed over and no error.

Races: adding, moving and retiring lock the owner's account row first, so that two chiefs can't be
made at once; a unique index stands behind it. Its tokens change under that lock too, so that two
can't pass TOKENS_MAX together.
"""

from datetime import datetime

import attrs

from muster.names import check_name
from muster.outcomes import Changed, Fact, Hint, HintKind

NODE_ALIVE_SECONDS = 30  # as muster/node/nodes.py counts the servers that run
TOKENS_MAX = 10  # of one agent, live at the same time


@attrs.frozen(kw_only=True)
class AgentRow:
    """An agent. `provisioned`: muster made it as a chief, so it gets the standing instructions.

    `node` and `connected_at` are None while no gateway socket is open.
    """

    id: int
    owner_id: int
    name: str
    chief: bool
    provisioned: bool
    created_at: datetime
    retired_at: datetime | None
    epoch: int
    node: str | None
    connected_at: datetime | None


@attrs.frozen(kw_only=True)
class AgentView(AgentRow):
    """An agent as listed, with when it last called.

    `is_connected`: to a server that is alive, this one or another. A row may name one that was
    killed, which took nothing back.
    """

    last_seen_at: datetime | None
    is_connected: bool


@attrs.frozen(kw_only=True)
class AddAgent:
    """Register an agent; audit action `agent.added`.

    `chief`: it takes the owner's messages. `replace`: also while another does, whose part ends
    then (`agent.chief_moved`); without a chief to replace it means nothing.
    """

    name: str
    chief: bool = False
    replace: bool = False


@attrs.frozen(kw_only=True)
class ListAgents:
    """List the live agents by name, or the retired ones too."""

    retired_too: bool = False
    limit: int = 1000


@attrs.frozen(kw_only=True)
class RetireAgent:
    """End a live agent; audit action `agent.retired`."""

    name: str


@attrs.frozen(kw_only=True)
class AddToken:
    """Make a live agent another token, beside those it has; audit action `agent.token_added`."""

    name: str


@attrs.frozen(kw_only=True)
class RevokeToken:
    """End one token of a live agent, and a connection by it; audit `agent.token_revoked`."""

    name: str
    token_id: int


@attrs.frozen(kw_only=True)
class Accept:
    """A gateway socket was opened on a node; no audit row, as it is no act of a person."""

    agent_id: int
    node: str


@attrs.frozen(kw_only=True)
class Release:
    """The gateway socket of this epoch was closed; no audit row."""

    agent_id: int
    epoch: int


def check(command: AddAgent) -> None:
    """Raise Invalid unless the name has its shape."""
    check_name(command.name, field="name")


def retired(agent: AgentRow, now: datetime) -> Changed[AgentRow]:
    """End a live agent as of `now`."""
    assert agent.retired_at is None
    return Changed(
        row=attrs.evolve(agent, retired_at=now),
        facts=(
            Fact(action="agent.retired", subject=f"agent:{agent.id}", data={"name": agent.name}),
        ),
        hints=(changed_hint(agent),),
    )


def deposed(chief: AgentRow) -> Changed[AgentRow]:
    """Make the chief a plain agent; the row of its successor names the move."""
    assert chief.chief
    return Changed(row=attrs.evolve(chief, chief=False), hints=(changed_hint(chief),))


def changed_hint(agent: AgentRow) -> Hint:
    """Whoever holds this agent's socket looks again."""
    return Hint(kind=HintKind.AGENT_CHANGED, owner_id=agent.owner_id, id=agent.id)
