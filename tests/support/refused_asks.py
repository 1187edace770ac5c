"""What the database refuses of asks, settles and retries, for tests/pg/test_refusals.py."""

MESSAGE = "where id = %(message)s"


def question(**columns: str) -> str:
    """The insert of an open ask of muster's, but for the columns that are given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "asked_by": "'muster'",
        "question": "'what?'",
        "answers": "'{}'",
        "state": "'open'",
        "created_at": "%(now)s",
        "expires_at": "%(now)s",
    } | columns
    return f"insert into asks ({', '.join(values)}) values ({', '.join(values.values())})"


HAND_OVER = (
    "update messages set state = 'delivering', agent_id = %(agent)s, epoch = 1,"
    f" delivering_at = %(now)s {MESSAGE}"
)
DELIVERED = f"update messages set state = 'delivered', settled_at = %(now)s {MESSAGE}"
UNCONFIRMED = f"update messages set state = 'unconfirmed', settled_at = %(now)s {MESSAGE}"
RETRY = (
    "update messages set state = 'queued', agent_id = null, epoch = null, delivering_at = null,"
    f" settled_at = null, retries = retries + 1 {MESSAGE}"
)
SETTLE = f"update messages set settle_reason = 'a notice', dispositioned_at = %(now)s {MESSAGE}"
ANSWER = (
    "update asks set state = 'answered', answer = 'yes', answered_via = 'cli', ended_at = %(now)s"
    " where id = %(ask)s"
)
TWICE = {"message_id": "%(message)s", "plugin_message_id": "%(message)s"}

ASKS: list[tuple[str, list[str]]] = [
    ("messages_move", [HAND_OVER, DELIVERED, RETRY]),
    ("messages_retries", [HAND_OVER, UNCONFIRMED, RETRY.replace("retries + 1", "retries")]),
    ("messages_retries", [f"update messages set retries = 1 {MESSAGE}"]),
    ("messages_settle_reason_check", [SETTLE.replace("'a notice'", "repeat('é', 2001)")]),
    ("messages_dispositioned_check", [SETTLE.replace("%(now)s", "null")]),
    ("messages_settled_once", [SETTLE, SETTLE.replace("'a notice'", "'another'")]),
    ("asks_owner_id_fkey", [question(owner_id="-1")]),
    ("asks_owner_id_agent_id_fkey", [question(asked_by="'agent'", agent_id="-1")]),
    ("asks_owner_id_message_id_fkey", [question(message_id="-1")]),
    ("asks_owner_id_task_id_fkey", [question(task_id="-1")]),
    ("asks_plugin_message_key", [question(**TWICE)]),
    ("asks_asked_by_check", [question(asked_by="'owner'", agent_id="%(agent)s")]),
    ("asks_asker_check", [question(agent_id="%(agent)s")]),
    ("asks_about_check", [question(message_id="%(message)s", plugin_message_id="%(second)s")]),
    ("asks_question_check", [question(question="repeat('é', 2001)")]),
    ("asks_answers_check", [question(answers="array_fill('a'::text, array[5])")]),
    ("asks_state_check", [question(state="'lost'", ended_at="%(now)s")]),
    ("asks_begin", [question(state="'dismissed'", ended_at="%(now)s")]),
    ("asks_answer_check", [ANSWER.replace("'yes'", "repeat('é', 2049)")]),
    ("asks_answered_check", [ANSWER.replace("'cli'", "null")]),
    ("asks_answered_check", [ANSWER.replace("'answered'", "'dismissed'")]),
    ("asks_ended_check", [ANSWER.replace("%(now)s", "null")]),
    ("asks_move", [ANSWER, ANSWER]),
    ("asks_question_kept", ["update asks set question = 'other' where id = %(ask)s"]),
]
