"""What looks for routes that are due, and the index of each look, for tests/test_plans.py."""

# As System, across owners.
SYSTEMS_ROUTED = ("muster.chief.operations.routing.due.",)

BY_INDEX_ROUTED = {
    "muster.chief.operations.routing.due.FIND_OVERDUE": "session_routes_deadline_idx",
    "muster.chief.operations.routing.due.FIND_OWED": "session_routes_owed_idx",
    "muster.chief.operations.routing.due.FIND_WAITING_OWNERS": "sends_routed_idx",
    "muster.chief.operations.routing.listing.LIST_ENDED": "session_routes_owner_id_id_key",
    "muster.chief.operations.routing.listing.LIST_OF_MESSAGE": "session_routes_message_idx",
    "muster.routes.operations.routes.LOCK_NEWEST": "session_routes_message_idx",
    "muster.routes.operations.routes.FIND_OPEN": "session_routes_one_open_key",
}
