"""`/`: where a person starts."""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from web.pages.visits import Visit, go_to, signed_in

HOME = Blueprint("home", __name__)


@signed_in(HOME, "GET", "/")
async def home(_visit: Visit) -> ResponseReturnValue:
    """What asks for a decision comes first."""
    return go_to("/attention")
