"""What the database refuses of routes, for tests/pg/test_refusals.py."""

THIS = "where id = %(route)s"


def route(**columns: str) -> str:
    """The insert of a second message's route, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "message_id": "%(second)s",
        "agent_id": "%(agent)s",
        "mirrored_id": "%(mirrored)s",
        "routed_by": "'chief'",
        "state": "'routed'",
        "created_at": "%(now)s",
        "deadline_at": "%(now)s",
    } | columns
    return f"insert into session_routes ({', '.join(values)}) values ({', '.join(values.values())})"


def change(what: str) -> str:
    """The update of the route that there is."""
    return f"update session_routes set {what} {THIS}"


def ended(state: str, more: str = "") -> str:
    """The update that ends the route."""
    return change(f"state = '{state}', ended_at = %(now)s{more}")


ANSWER = change(
    "state = 'answered', answer = 'yes', answered_at = %(now)s, answered_via = 'mcp from box'"
)
RELAY = ended("relayed")
TIME_OUT = ended("timed_out")
OWED = ended("timed_out", ", handback = 'owed'")
FAIL = ended("failed")
BY_OWNER = ended("owner_answered", ", owner_replied_at = %(now)s")

ROUTES: list[tuple[str, list[str]]] = [
    ("session_routes_by_check", [route(routed_by="'agent'")]),
    ("session_routes_via_check", [route(routed_via="''")]),
    ("session_routes_via_check", [route(routed_via="repeat('é', 401)")]),
    ("session_routes_state_check", [route(state="'lost'", ended_at="%(now)s")]),
    ("session_routes_begin", [route(state="'timed_out'", ended_at="%(now)s")]),
    ("session_routes_one_open_key", [route(message_id="%(message)s")]),
    ("session_routes_one_open_key", [ANSWER, route(message_id="%(message)s")]),
    ("session_routes_owner_id_message_id_fkey", [route(message_id="-1")]),
    ("session_routes_owner_id_agent_id_fkey", [route(agent_id="-1")]),
    ("session_routes_owner_id_mirrored_id_fkey", [route(mirrored_id="-1")]),
    ("session_routes_answer_check", [ANSWER.replace("'yes'", "''")]),
    ("session_routes_answer_check", [ANSWER.replace("'yes'", "repeat('é', 8193)")]),
    ("session_routes_answered_check", [change("state = 'answered'")]),
    ("session_routes_answered_check", [ANSWER.replace("'mcp from box'", "null")]),
    ("session_routes_answered_check", [ANSWER.replace("state = 'answered', ", "")]),
    ("session_routes_ended_check", [FAIL.replace("%(now)s", "null")]),
    ("session_routes_ended_check", [change("ended_at = %(now)s")]),
    ("session_routes_why_check", [ended("failed", ", why = ''")]),
    ("session_routes_why_check", [ended("failed", ", why = repeat('é', 501)")]),
    ("session_routes_relay_check", [change("relay_due_at = %(now)s")]),
    ("session_routes_owner_check", [ended("owner_answered")]),
    ("session_routes_owner_check", [change("owner_replied_at = %(now)s")]),
    ("session_routes_handback_check", [route(handback="'perhaps'")]),
    ("session_routes_owed_check", [BY_OWNER.replace("set ", "set handback = 'owed', ")]),
    ("session_routes_handed_back_check", [OWED, change("handback = 'delivered'")]),
    ("session_routes_handed_back_check", [OWED, change("handed_back_at = %(now)s")]),
    # A hand-back is owed from the end on, and delivered once.
    ("session_routes_handback_move", [TIME_OUT, change("handback = 'owed'")]),
    ("session_routes_handback_move", [change("handback = 'delivered'")]),
    ("session_routes_handback_move", [OWED, change("handback = 'none'")]),
    *[
        ("session_routes_kept", [change(what)])
        for what in (
            "message_id = %(second)s",
            "agent_id = -1",
            "mirrored_id = -1",
            "routed_by = 'owner'",
            "routed_via = 'mcp'",
            "created_at = created_at - interval '1 day'",
            "deadline_at = deadline_at + interval '1 day'",
        )
    ],
    ("session_routes_kept", [ANSWER, change("answer = 'no'")]),
    *[
        ("session_routes_move", moves)
        for moves in (
            [RELAY],
            [ANSWER, TIME_OUT],
            [ANSWER, BY_OWNER],
            [TIME_OUT, ANSWER],
            [FAIL, BY_OWNER],
            [ANSWER, RELAY, FAIL],
            [BY_OWNER, FAIL],
        )
    ],
]
