"""What the database refuses of tasks, tags and comments, for tests/pg/test_refusals.py."""

THIS = "where id = %(task)s"


def task(**columns: str) -> str:
    """The insert of an open task, but for the columns that are given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "title": "'t'",
        "body": "''",
        "status": "'open'",
        "created_by": "'owner'",
        "created_at": "%(now)s",
        "updated_at": "%(now)s",
    } | columns
    return f"insert into tasks ({', '.join(values)}) values ({', '.join(values.values())})"


def tag(text: str, *, owner: str = "%(owner)s", of: str = "%(task)s") -> str:
    """The insert of a tag, given as SQL."""
    return f"insert into task_tags (owner_id, task_id, tag) values ({owner}, {of}, {text})"


def comment(**columns: str) -> str:
    """The insert of a plugin's comment, but for the columns that are given as SQL."""
    body = columns.get("body", "'said'")
    values = {
        "owner_id": "%(owner)s",
        "task_id": "%(task)s",
        "author": "'plugin:mail'",
        "body": body,
        "body_sha256": f"sha256(convert_to({body}, 'UTF8'))",
        "created_at": "%(now)s",
    } | columns
    return f"insert into task_comments ({', '.join(values)}) values ({', '.join(values.values())})"


MERGE = f"update tasks set merged_into = %(second_task)s {THIS}"
RETRACT = "update task_comments set retracted_at = %(now)s where task_id = %(task)s"

TASKS: list[tuple[str, list[str]]] = [
    ("tasks_title_check", [task(title="''")]),
    ("tasks_title_check", [task(title="repeat('é', 513)")]),
    ("tasks_body_check", [task(body="repeat('é', 8193)")]),
    ("tasks_status_check", [task(status="'lost'")]),
    ("tasks_repository_check", [task(repository="'a/b/c'")]),
    ("tasks_model_check", [task(model="''")]),
    ("tasks_closed_check", [task(status="'complete'")]),
    ("tasks_closed_check", [f"update tasks set closed_at = %(now)s {THIS}"]),
    ("tasks_owner_id_fkey", [task(owner_id="-1")]),
    ("tasks_owner_id_message_id_fkey", [task(message_id="-1")]),
    ("tasks_owner_id_merged_into_fkey", [task(merged_into="-1")]),
    ("tasks_merged_check", [f"update tasks set merged_into = id {THIS}"]),
    ("tasks_merged_once", [MERGE, f"update tasks set merged_into = null {THIS}"]),
    ("tasks_winner_lives", [
        MERGE, "update tasks set merged_into = %(task)s where id = %(second_task)s"]),
    ("tasks_winner_lives", [MERGE, task(merged_into="%(task)s")]),
    *[
        ("tasks_origin_kept", [f"update tasks set {change} {THIS}"])
        for change in (
            "message_id = %(message)s",
            "created_by = 'plugin:mail'",
            "created_at = created_at - interval '1 day'",
        )
    ],
    ("task_tags_tag_check", [tag("'A'")]),
    ("task_tags_tag_check", [tag("repeat('a', 65)")]),
    ("task_tags_pkey", [tag("'twice'"), tag("'twice'")]),
    ("task_tags_owner_id_task_id_fkey", [tag("'a'", of="-1")]),
    ("task_comments_body_check", [comment(body="''")]),
    ("task_comments_body_check", [comment(body="repeat('é', 8193)")]),
    ("task_comments_sha256_check", [comment(body_sha256="sha256('other')")]),
    ("task_comments_owner_id_task_id_fkey", [comment(task_id="-1")]),
    ("task_comments_once_key", [comment(), RETRACT, comment()]),
    ("task_comments_text_kept", [
        comment(), RETRACT.replace("retracted_at = %(now)s", "author = 'owner'")]),
    ("task_comments_text_kept", [
        comment(), RETRACT, RETRACT.replace("%(now)s", "null")]),
]  # fmt: skip
