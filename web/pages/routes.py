"""`/routes`: messages that were handed to sessions, and what came back."""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.chief.operations.routing.listing import LookAtRoutes, look_at_route, look_at_routes
from web.pages.reading import find_id, read_id
from web.pages.visits import Visit, show, signed_in

ROUTES = Blueprint("session_routes", __name__)


@signed_in(ROUTES, "GET", "/routes")
async def routes(visit: Visit) -> ResponseReturnValue:
    """The open routes, and under them a page of those that ended."""
    command = LookAtRoutes(before=find_id(visit.args.get("before")))
    page = await visit.node.db.run(visit.owner, look_at_routes, command)
    return await show(
        "routes/list.html", page=page, older=command.before, routing=visit.node.config.routing
    )


@signed_in(ROUTES, "GET", "/routes/<route_id>")
async def route(visit: Visit, route_id: str) -> ResponseReturnValue:
    """One route."""
    found = await visit.node.db.run(visit.owner, look_at_route, read_id(route_id))
    return await show("routes/route.html", route=found)
