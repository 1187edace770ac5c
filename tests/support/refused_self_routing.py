"""What the database refuses of threads, authors and resumes, for tests/pg/test_refusals.py."""


def _insert(table: str, values: dict[str, str]) -> str:
    return f"insert into {table} ({', '.join(values)}) values ({', '.join(values.values())})"


def thread(**columns: str) -> str:
    """The insert of a bound thread, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "thread": "'t-2'",
        "mirrored_id": "%(mirrored)s",
        "bound_at": "%(now)s",
    }
    return _insert("plugin_threads", values | columns)


def author(**columns: str) -> str:
    """The insert of a pull request's author, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "repo": "'Example/Garden'",
        "repo_key": "'example/garden'",
        "kind": "'gh-pr-create'",
        "pr": "13",
        "claude_session": "'c0ffee00-0000-4000-8000-000000000001'",
        "first_seen_at": "%(now)s",
        "seen_at": "%(now)s",
    }
    return _insert("session_prs", values | columns)


def push(**columns: str) -> str:
    """The insert of a pushed branch."""
    return author(**({"kind": "'git-push'", "pr": "null", "head_ref": "'roses'"} | columns))


def resume(**columns: str) -> str:
    """The insert of the second message's resume, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "message_id": "%(second)s",
        "claude_session": "'c0ffee00-0000-4000-8000-000000000002'",
        "cause": "'review'",
        "routed_via": "'pr example/garden#12 authored by c0ffee00'",
        "state": "'wanted'",
        "created_at": "%(now)s",
    }
    return _insert("mail_resumes", values | columns)


def change(what: str) -> str:
    """The update of the resume that there is."""
    return f"update mail_resumes set {what} where id = %(resume)s"


ASK = change("state = 'asking', host_id = %(host)s, epoch = 1, asked_at = %(now)s")
WAIT = change("state = 'waiting', waits_until = %(now)s")
ROUTED = change("state = 'routed', route_id = %(route)s, ended_at = %(now)s")
REFUSED = change("state = 'refused', why = 'no', ended_at = %(now)s")
SAME = "'c0ffee00-0000-4000-8000-000000000001'"

SELF_ROUTING: list[tuple[str, list[str]]] = [
    ("plugin_threads_thread_check", [thread(thread="''")]),
    ("plugin_threads_thread_check", [thread(thread="repeat('é', 101)")]),
    ("plugin_threads_thread_key", [thread(thread="'t-1'")]),
    ("plugin_threads_owner_id_fkey", [thread(owner_id="-1")]),
    ("plugin_threads_owner_id_mirrored_id_fkey", [thread(mirrored_id="-1")]),
    ("session_prs_repo_check", [author(repo="'garden'", repo_key="'garden'")]),
    ("session_prs_repo_key_check", [author(repo_key="'Example/Garden'")]),
    ("session_prs_kind_check", [author(kind="'web'")]),
    ("session_prs_pr_check", [author(pr="0")]),
    ("session_prs_head_ref_check", [author(head_ref="''")]),
    ("session_prs_head_ref_check", [author(head_ref="repeat('é', 251)")]),
    ("session_prs_session_check", [author(claude_session="'C0FFEE00'")]),
    ("session_prs_what_check", [author(pr="null")]),
    ("session_prs_what_check", [push(pr="13")]),
    ("session_prs_what_check", [push(head_ref="null")]),
    ("session_prs_created_key", [author(), author()]),
    ("session_prs_pushed_key", [push(), push()]),
    ("session_prs_owner_id_fkey", [author(owner_id="-1")]),
    ("session_prs_owner_id_host_id_fkey", [author(host_id="-1")]),
    ("mail_resumes_message_key", [resume(message_id="%(message)s")]),
    ("mail_resumes_session_check", [resume(claude_session="'C0FFEE00'")]),
    ("mail_resumes_cause_check", [resume(cause="'chief'")]),
    ("mail_resumes_via_check", [resume(routed_via="''")]),
    ("mail_resumes_state_check", [resume(state="'lost'")]),
    ("mail_resumes_begin", [resume(state="'refused'", why="'no'", ended_at="%(now)s")]),
    ("mail_resumes_one_key", [resume(claude_session=SAME)]),
    ("mail_resumes_owner_id_message_id_fkey", [resume(message_id="-1")]),
    ("mail_resumes_owner_id_wanted_host_id_fkey", [resume(wanted_host_id="-1")]),
    ("mail_resumes_owner_id_host_id_fkey", [ASK.replace("%(host)s", "-1")]),
    ("mail_resumes_owner_id_joined_id_fkey", [resume(joined_id="-1")]),
    ("mail_resumes_owner_id_route_id_fkey", [WAIT, ROUTED.replace("%(route)s", "-1")]),
    (
        "mail_resumes_route_key",
        [
            WAIT,
            ROUTED,
            resume(),
            WAIT.replace("%(resume)s", "(select max(id) from mail_resumes)"),
            ROUTED.replace("%(resume)s", "(select max(id) from mail_resumes)"),
        ],
    ),
    ("mail_resumes_asked_check", [ASK.replace("epoch = 1, ", "")]),
    ("mail_resumes_asked_check", [ASK.replace(", asked_at = %(now)s", "")]),
    ("mail_resumes_in_hand_check", [change("state = 'asking'")]),
    ("mail_resumes_started_check", [change("started_at = %(now)s")]),
    (
        "mail_resumes_joined_check",
        [
            resume(joined_id="%(resume)s"),
            ASK.replace("%(resume)s", "(select max(id) from mail_resumes)"),
        ],
    ),
    ("mail_resumes_window_check", [change("tmux_window = ''")]),
    ("mail_resumes_waits_check", [change("state = 'waiting'")]),
    ("mail_resumes_routed_check", [WAIT, ROUTED.replace("route_id = %(route)s, ", "")]),
    ("mail_resumes_ended_check", [REFUSED.replace(", ended_at = %(now)s", "")]),
    ("mail_resumes_ended_check", [change("ended_at = %(now)s")]),
    ("mail_resumes_why_check", [REFUSED.replace("'no'", "repeat('é', 501)")]),
    ("mail_resumes_why_not_check", [REFUSED.replace("why = 'no', ", "")]),
    *[
        ("mail_resumes_kept", [change(what)])
        for what in (
            "message_id = %(second)s",
            "claude_session = 'c0ffee00-0000-4000-8000-000000000002'",
            "cause = 'review'",
            "routed_via = 'other'",
            "wanted_host_id = %(host)s",
            "joined_id = id",
            "created_at = created_at - interval '1 day'",
        )
    ],
    *[
        ("mail_resumes_move", moves)
        for moves in (
            [ROUTED],
            [ASK, ROUTED],
            [WAIT, ASK],
            [REFUSED, WAIT],
            [WAIT, ROUTED, REFUSED.replace("state =", "route_id = null, state =")],
        )
    ],
]
