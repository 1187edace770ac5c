"""What the database refuses of questions of sessions, for tests/pg/test_refusals.py."""


def ask(**columns: str) -> str:
    """The insert of a question in a turn of its own, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "mirrored_id": "%(mirrored)s",
        "agent_id": "%(agent)s",
        "turn_id": "(select max(id) from turns)",
        "question": "'Which gate?'",
        "created_at": "%(now)s",
    } | columns
    return f"insert into session_asks ({', '.join(values)}) values ({', '.join(values.values())})"


SAY = (
    "insert into turns (owner_id, conversation_id, agent_id, words, said_by, state, attempt,"
    " created_at) values (%(owner)s, %(conversation)s, %(agent)s, 'hello', 'muster', 'queued', 0,"
    " %(now)s)"
)

SESSION_ASKS: list[tuple[str, list[str]]] = [
    ("session_asks_turn_key", [SAY, ask(), ask()]),
    ("session_asks_question_check", [SAY, ask(question="''")]),
    ("session_asks_question_check", [SAY, ask(question="repeat('é', 2001)")]),
    ("session_asks_owner_id_mirrored_id_fkey", [SAY, ask(mirrored_id="-1")]),
    ("session_asks_owner_id_agent_id_fkey", [SAY, ask(agent_id="-1")]),
    ("session_asks_owner_id_route_id_fkey", [SAY, ask(route_id="-1")]),
    ("session_asks_owner_id_turn_id_fkey", [ask(turn_id="-1")]),
]
