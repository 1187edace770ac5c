"""What the database refuses of conversations and turns, for tests/pg/test_refusals.py."""

WORDS = "where id = %(turn)s"


def talk(**columns: str) -> str:
    """The insert of an agent's default conversation, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "agent_id": "%(agent)s",
        "kind": "'default'",
        "title": "'Owner'",
        "created_at": "%(now)s",
    } | columns
    return f"insert into conversations ({', '.join(values)}) values ({', '.join(values.values())})"


def words(**columns: str) -> str:
    """The insert of words that wait, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "conversation_id": "%(conversation)s",
        "agent_id": "%(agent)s",
        "words": "'hello'",
        "said_by": "'owner'",
        "state": "'queued'",
        "attempt": "0",
        "created_at": "%(now)s",
    } | columns
    return f"insert into turns ({', '.join(values)}) values ({', '.join(values.values())})"


def of_message(**columns: str) -> str:
    """The insert of a message's turn, but for the columns given as SQL."""
    of = {"message_id": "%(message)s", "words": "null", "said_by": "null", "attempt": "1"}
    begun = {"state": "'delivering'", "epoch": "1", "begun_at": "%(now)s"}
    return words(**(of | begun | columns))


BEGIN = f"update turns set state = 'delivering', epoch = 1, begun_at = %(now)s {WORDS}"
DONE = f"update turns set state = 'delivered', ended_at = %(now)s, answer = 'yes' {WORDS}"
FAILED = (
    "update turns set state = 'unconfirmed', ended_at = %(now)s, failure = 'lost',"
    f" error = 'no ink' {WORDS}"
)

TURNS: list[tuple[str, list[str]]] = [
    ("conversations_kind_check", [talk(kind="'other'", plugin_id="%(plugin)s")]),
    ("conversations_plugin_check", [talk(kind="'plugin'")]),
    ("conversations_plugin_check", [talk(plugin_id="%(plugin)s")]),
    ("conversations_one_default_key", [talk(), talk()]),
    ("turns_owner_id_conversation_id_fkey", [words(conversation_id="-1")]),
    ("turns_owner_id_agent_id_fkey", [words(agent_id="-1")]),
    ("turns_owner_id_message_id_fkey", [of_message(message_id="-1")]),
    ("turns_words_check", [words(words="repeat('é', 8193)")]),
    ("turns_words_check", [words(words="''")]),
    ("turns_said_by_check", [words(said_by="'somebody'")]),
    ("turns_what_check", [words(said_by="null")]),
    ("turns_what_check", [words(ask_id="1")]),
    ("turns_what_check", [of_message(words="'hello'")]),
    ("turns_what_check", [of_message(said_by="'owner'")]),
    ("turns_message_begun_check", [of_message(state="'queued'", epoch="null", begun_at="null")]),
    ("turns_state_check", [words(state="'lost'", epoch="1", begun_at="%(now)s")]),
    ("turns_noted_check", [words(state="'noted'", ended_at="%(now)s")]),
    ("turns_read_check", [f"update turns set read_in = id {WORDS}"]),
    ("turns_begun_check", [BEGIN.replace("%(now)s", "null")]),
    ("turns_begun_check", [BEGIN.replace("epoch = 1", "epoch = null")]),
    ("turns_ended_check", [BEGIN, DONE.replace("%(now)s", "null")]),
    ("turns_answer_check", [BEGIN, DONE.replace("'yes'", "repeat('é', 32769)")]),
    ("turns_failure_check", [BEGIN, FAILED.replace("'lost'", "'whim'")]),
    ("turns_error_check", [BEGIN, FAILED.replace("'no ink'", "''")]),
    ("turns_error_check", [BEGIN, FAILED.replace("'no ink'", "repeat('é', 501)")]),
    ("turns_failed_check", [BEGIN, FAILED.replace("'unconfirmed'", "'delivered'")]),
    ("turns_failed_check", [BEGIN, FAILED.replace("'lost'", "null")]),
    ("turns_content_kept", [BEGIN, FAILED, f"update turns set error = 'none' {WORDS}"]),
    ("turns_begin", [words(state="'delivering'", epoch="1", begun_at="%(now)s")]),
    ("turns_begin", [of_message(state="'delivered'", ended_at="%(now)s")]),
    # One turn at a time, across messages and words.
    ("turns_one_turn_key", [of_message(), BEGIN]),
    ("turns_one_turn_key", [BEGIN, of_message()]),
    ("turns_one_turn_key", [of_message(), of_message(message_id="%(second)s")]),
    ("turns_attempt_key", [
        of_message(), DONE.replace(WORDS, "where message_id = %(message)s"), of_message()]),
    ("turns_move", [DONE.replace("set", "set epoch = 1, begun_at = %(now)s,")]),
    ("turns_content_kept", [f"update turns set words = 'other' {WORDS}"]),
    ("turns_content_kept", [f"update turns set said_by = 'muster' {WORDS}"]),
    ("turns_content_kept", [BEGIN, DONE, f"update turns set answer = 'no' {WORDS}"]),
    ("turns_content_kept", [BEGIN, DONE, BEGIN.replace("set", "set ended_at = null,")]),
    ("turns_kept", [f"delete from turns {WORDS}"]),
    ("turns_kept", [BEGIN, f"delete from turns {WORDS}"]),
]  # fmt: skip
