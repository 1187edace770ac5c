"""A queued message goes to a session by muster's own choice, without a turn of the chief's."""

from muster.chief.self_routing.targets import Target
from muster.messages.rules import Message
from muster.pg.database import Transaction


async def hand_to_session(tx: Transaction, message: Message, target: Target) -> int:
    """Make the route; its id. The caller holds the chief's row and saw that the session can take.

    The message is handed to the chief without a turn in the same transaction (`plugin.delivered`
    with `routed`), and stands in the chief's conversation with a line that names the route. Of a
    pull request's older rounds those whose paste is still queued are superseded.
    """
    raise NotImplementedError
