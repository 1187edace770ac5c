"""`muster agent`: who reads the messages and drafts the replies."""

from typing import TYPE_CHECKING

import click

from muster.commands.agent_run import run
from muster.commands.next_step import to_type
from muster.commands.options import json_option, owner_option
from muster.commands.output import local, print_json, print_table, utc
from muster.commands.session import in_store

if TYPE_CHECKING:
    from muster.agents.rules import AgentView


@click.group()
def agent() -> None:
    """Add, list, retire and run agents."""


agent.add_command(run)


@agent.command()
@click.argument("name")
@owner_option
@click.option("--chief", is_flag=True, help="It takes the owner's messages.")
@click.option("--replace", is_flag=True, help="Move the chief, if there is one already.")
@json_option
def add(name: str, owner: str | None, *, chief: bool, replace: bool, as_json: bool) -> None:
    """Register an agent named NAME and print its token, this once.

    An owner has one chief. While there is one, another --chief exits 7; with --replace it takes
    over and the former stays as a plain agent.
    """
    from muster.agents.operations import add_agent
    from muster.agents.rules import AddAgent

    if replace and not chief:
        raise click.UsageError("--replace goes with --chief.")
    command = AddAgent(name=name, chief=chief, replace=replace)
    added, token = in_store(lambda store: store.run_as(owner, add_agent, command))
    if as_json:
        print_json({"agent_id": added.id, "name": added.name, "chief": added.chief, "token": token})
        return
    click.echo(token)
    click.echo(f"This is the token of {added.name}. It is shown this once; keep it safe.", err=True)


@agent.command("list")
@owner_option
@click.option("--all", "retired_too", is_flag=True, help="The retired ones too.")
@json_option
def list_(owner: str | None, *, retired_too: bool, as_json: bool) -> None:
    """List agents: which is the chief, and which are connected."""
    from muster.agents.operations import list_agents
    from muster.agents.rules import ListAgents

    command = ListAgents(retired_too=retired_too)
    found = in_store(lambda store: store.run_as(owner, list_agents, command))
    if as_json:
        print_json([_document(view) for view in found])
        return
    print_table(
        ("ID", "Name", "Part", "Connected", "Last seen", "State"),
        [
            (
                str(view.id),
                view.name,
                "chief" if view.chief else "-",
                local(view.connected_at if view.is_connected else None),
                local(view.last_seen_at),
                "live" if view.retired_at is None else f"retired {local(view.retired_at)}",
            )
            for view in found
        ],
        empty=f"There is no agent yet: {to_type('agent', 'add', 'NAME', '--chief')}",
    )


@agent.command()
@click.argument("name")
@owner_option
@json_option
def retire(name: str, owner: str | None, *, as_json: bool) -> None:
    """End the agent NAME and its token, for good; the name is free again."""
    from muster.agents.operations import retire_agent
    from muster.agents.rules import RetireAgent

    ended = in_store(lambda store: store.run_as(owner, retire_agent, RetireAgent(name=name)))
    if as_json:
        print_json({"agent_id": ended.id, "name": ended.name, "retired_at": utc(ended.retired_at)})
        return
    click.echo(f"{ended.name} is retired; its token opens no door any more.", err=True)


def _document(view: "AgentView") -> dict[str, object]:
    return {
        "agent_id": view.id,
        "name": view.name,
        "chief": view.chief,
        "connected": view.is_connected,
        "connected_at": utc(view.connected_at if view.is_connected else None),
        "created_at": utc(view.created_at),
        "last_seen_at": utc(view.last_seen_at),
        "retired_at": utc(view.retired_at),
    }
