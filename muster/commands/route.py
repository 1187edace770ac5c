"""`muster route`: messages that were handed to sessions, and a session's answer to one."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.commands.options import Id, json_option, limit_option, owner_option
from muster.commands.output import (
    age,
    local,
    print_heading,
    print_json,
    print_pairs,
    print_quoted,
    print_table,
    shown,
    utc,
)
from muster.commands.session import in_store
from muster.commands.tokens import DEFAULT_URL
from muster.errors import Invalid

if TYPE_CHECKING:
    from muster.chief.operations.routing.listing import RouteView

_ROUTE_ID = Id("route")
ANSWER_BYTES_MAX = 16 * 1024


@click.group()
def route() -> None:
    """Answer a message that was routed to a session, or look at routes.

    A route hands a message to one of your terminal sessions, whose answer becomes the reply.
    """


@route.command()
@click.argument("route_id", metavar="ROUTE", type=_ROUTE_ID)
@click.option(
    "--body-file",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="The answer, UTF-8 of at most 16 KiB; - is stdin.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A personal token [MUSTER_API_TOKEN, else MUSTER_HOOK_TOKEN].",
)
@click.option("--url", help=f"Where the server is [MUSTER_URL, else {DEFAULT_URL}].")
@json_option
def reply(
    route_id: int, body_file: Path, token_file: Path | None, url: str | None, *, as_json: bool
) -> None:
    """Answer the message of ROUTE, an id, from a session that has no muster MCP server.

    The answer is the reply itself, as its sender will read it, without the end of its last line. It
    waits for its owner's approval, unless the server's allowlist has the sender. The same answer
    again changes nothing.
    """
    from muster.commands.over_http import find_api_token, post

    token = find_api_token(token_file, os.environ)
    address = url or os.environ.get("MUSTER_URL") or DEFAULT_URL
    body = {"body": _read(body_file)}
    told = post(address, f"/api/routes/{route_id}/reply", token=token, body=body)
    if as_json:
        print_json({name: told.get(name) for name in ("route_id", "message_id", "state")})
        return
    click.echo(f"Route {route_id} is answered: {_became(str(told.get('state')))}", err=True)


def _became(state: str) -> str:
    told = {
        "relayed": "the reply was approved by the allowlist and goes to its sender.",
        "fallback": "the reply waits for its owner's approval.",
        "answered": "the answer is kept, and becomes the reply within two minutes.",
        "failed": "it could not be sent, and the chief has the message back.",
    }
    return told.get(state, state)


def _read(path: Path) -> str:
    try:
        if str(path) == "-":
            raw = sys.stdin.buffer.read(ANSWER_BYTES_MAX + 1)
        else:
            with path.open("rb") as file:
                raw = file.read(ANSWER_BYTES_MAX + 1)
        text = raw.decode()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="body-file") from None
    except UnicodeDecodeError:
        raise Invalid("The answer must be UTF-8.", field="body-file") from None
    if len(raw) > ANSWER_BYTES_MAX:
        raise Invalid(f"The answer has at most {ANSWER_BYTES_MAX} bytes.", field="body-file")
    return text.rstrip("\r\n")


@route.command("list")
@owner_option
@limit_option
@json_option
def list_(owner: str | None, limit: int, *, as_json: bool) -> None:
    """List routes, newest first."""
    from muster.chief.operations.routing.listing import ListRoutes, list_routes

    command = ListRoutes(limit=limit)
    listed = in_store(lambda store: store.run_as(owner, list_routes, command))
    if as_json:
        print_json([_document(view) for view in listed.routes])
        return
    print_table(
        ("ID", "Age", "Message", "Session", "Host", "State"),
        [
            (
                str(view.id),
                age(view.created_at, listed.now),
                str(view.message_id),
                shown(view.session),
                shown(view.host),
                view.state.value,
            )
            for view in listed.routes
        ],
        empty="No message was handed to a session yet.",
        spare=("Host", "Age"),
    )


@route.command()
@click.argument("route_id", metavar="ROUTE", type=_ROUTE_ID)
@owner_option
@json_option
def show(route_id: int, owner: str | None, *, as_json: bool) -> None:
    """Show one route whole. The answer is what its session wrote."""
    from muster.chief.operations.routing.listing import look_at_route

    view = in_store(lambda store: store.run_as(owner, look_at_route, route_id))
    if as_json:
        print_json(_document(view))
        return
    print_heading(f"Route {view.id}")
    pairs = [
        ("State", view.state.value),
        ("Message", f"{view.message_id}, of {shown(view.plugin)}"),
        ("Session", f"{shown(view.session)} on {shown(view.host)}"),
        ("Subject", f"mirror:{view.claude_session}"),
        ("Routed", f"{local(view.created_at)}, by {view.routed_by.value}"),
        ("Deadline", local(view.deadline_at)),
    ]
    if view.ended_at is not None:
        pairs.append(("Ended", local(view.ended_at)))
    if view.why is not None:
        pairs.append(("Why", shown(view.why)))
    if view.draft_id is not None:
        pairs.append(("Draft", str(view.draft_id)))
    print_pairs(pairs)
    if view.answer is not None:
        print_quoted(view.answer)


def _document(view: "RouteView") -> dict[str, object]:
    return {
        "route_id": view.id,
        "message_id": view.message_id,
        "plugin": view.plugin,
        "subject": f"mirror:{view.claude_session}",
        "session": view.session,
        "host": view.host,
        "routed_by": view.routed_by.value,
        "routed_via": view.routed_via,
        "state": view.state.value,
        "created_at": utc(view.created_at),
        "deadline_at": utc(view.deadline_at),
        "answer": view.answer,
        "answered_at": utc(view.answered_at),
        "answered_via": view.answered_via,
        "ended_at": utc(view.ended_at),
        "why": view.why,
        "handback": view.handback.value,
        "draft_id": view.draft_id,
    }
