"""What the database refuses of hosts, sessions and queues, for tests/pg/test_refusals.py."""


def _insert(table: str, values: dict[str, str]) -> str:
    return f"insert into {table} ({', '.join(values)}) values ({', '.join(values.values())})"


def host(**columns: str) -> str:
    """The insert of a host, but for the columns given as SQL."""
    return _insert(
        "hosts", {"owner_id": "%(owner)s", "name": "'new'", "created_at": "%(now)s"} | columns
    )


def session(**columns: str) -> str:
    """The insert of a session, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "claude_session": "'c0ffee00-0000-4000-8000-000000000002'",
        "host_id": "%(host)s",
        "first_seen_at": "%(now)s",
        "last_seen_at": "%(now)s",
    }
    return _insert("mirrored", values | columns)


def window(**columns: str) -> str:
    """The insert of a window, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "host_id": "%(host)s",
        "tmux_window": "'@2'",
        "title": "'main'",
        "place": "2",
        "listed_at": "%(now)s",
    }
    return _insert("windows", values | columns)


def pane(**columns: str) -> str:
    """The insert of a pane, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "window_id": "%(window)s",
        "tmux_pane": "'%%2'",
        "active": "false",
        "state": "'working'",
        "state_since": "%(now)s",
    }
    return _insert("panes", values | columns)


def title(**columns: str) -> str:
    """The insert of a session's focus, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "mirrored_id": "%(mirrored)s",
        "title": "'the roses'",
        "source": "'prompt'",
        "at": "%(now)s",
        "noted_at": "%(now)s",
    }
    return _insert("focus_titles", values | columns)


def text(**columns: str) -> str:
    """The insert of a queued text, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "mirrored_id": "%(mirrored)s",
        "text": "'go on'",
        "queued_by": "'owner'",
        "queued_via": "'browser'",
        "state": "'queued'",
        "created_at": "%(now)s",
    }
    return _insert("sends", values | columns)


THIS = "where id = %(send)s"
OFFER = (
    "update sends set state = 'offered', host_id = %(host)s, epoch = 1, offered_at = %(now)s,"
    f" offers = 1 {THIS}"
)
DOUBT = f"update sends set state = 'unconfirmed' {THIS}"
PROVE = f"update sends set state = 'pasted', ended_at = %(now)s {THIS}"
LOSE = f"update sends set state = 'lost', ended_at = %(now)s {THIS}"
CANCEL = f"update sends set state = 'cancelled', ended_at = %(now)s {THIS}"
REFUSE = f"update sends set state = 'refused', ended_at = %(now)s {THIS}"
BACK = f"update sends set state = 'queued', host_id = null, epoch = null, offered_at = null {THIS}"
ASKED = f"update sends set ask_id = %(ask)s {THIS}"
OTHER = "(select max(id) from sends)"
ROUTED = text(route_id="%(route)s")

MIRROR: list[tuple[str, list[str]]] = [
    ("hosts_name_check", [host(name="'Box'")]),
    ("hosts_live_name_key", [host(name="'box'")]),
    ("hosts_machine_check", [host(machine="''")]),
    ("hosts_machine_check", [host(machine="repeat('é', 81)")]),
    ("hosts_owner_id_fkey", [host(owner_id="-1")]),
    ("mirrored_session_check", [session(claude_session="'C0FFEE00'")]),
    ("mirrored_session_key", [session(), session()]),
    ("mirrored_cwd_check", [session(cwd="repeat('x', 1025)")]),
    ("mirrored_repo_check", [session(repo="''")]),
    ("mirrored_owner_id_fkey", [session(owner_id="-1")]),
    ("mirrored_owner_id_host_id_fkey", [session(host_id="-1")]),
    ("windows_window_check", [window(tmux_window="''")]),
    ("windows_title_check", [window(title="repeat('é', 201)")]),
    ("windows_label_check", [window(label="''")]),
    ("windows_window_key", [window(tmux_window="'@1'")]),
    ("windows_owner_id_host_id_fkey", [window(host_id="-1")]),
    ("panes_pane_check", [pane(tmux_pane="repeat('x', 41)")]),
    ("panes_state_check", [pane(state="'asleep'")]),
    ("panes_idle_check", [pane(state="'idle'")]),
    ("panes_idle_check", [pane(idle_since="%(now)s")]),
    ("panes_cwd_check", [pane(cwd="''")]),
    ("panes_repo_check", [pane(repo="repeat('x', 201)")]),
    ("panes_pane_key", [pane(), pane()]),
    ("panes_owner_id_window_id_fkey", [pane(window_id="-1")]),
    ("panes_owner_id_mirrored_id_fkey", [pane(mirrored_id="-1")]),
    ("focus_title_check", [title(title="repeat('é', 121)")]),
    ("focus_title_check", [title(title="''")]),
    ("focus_source_check", [title(source="'guess'")]),
    ("focus_cwd_check", [title(cwd="''")]),
    ("focus_whose_check", [title(mirrored_id="null")]),
    ("focus_whose_check", [title(agent_id="%(agent)s")]),
    ("focus_once_key", [title(), title()]),
    ("focus_titles_owner_id_fkey", [title(owner_id="-1")]),
    ("focus_titles_owner_id_mirrored_id_fkey", [title(mirrored_id="-1")]),
    ("focus_titles_owner_id_agent_id_fkey", [title(mirrored_id="null", agent_id="-1")]),
    ("sends_text_check", [text(text="repeat('é', 49153)")]),
    ("sends_text_check", [text(text="''")]),
    ("sends_state_check", [text(state="'sent'")]),
    ("sends_why_check", [f"update sends set why = repeat('é', 501) {THIS}"]),
    ("sends_begin", [text(state="'cancelled'", ended_at="%(now)s")]),
    ("sends_owner_id_mirrored_id_fkey", [text(mirrored_id="-1")]),
    ("sends_owner_id_host_id_fkey", [OFFER.replace("%(host)s", "-1")]),
    ("sends_owner_id_ask_id_fkey", [f"update sends set ask_id = -1 {THIS}"]),
    ("sends_ask_key", [ASKED, text(), f"update sends set ask_id = %(ask)s where id = {OTHER}"]),
    ("sends_offered_check", [OFFER.replace("epoch = 1, ", "")]),
    ("sends_offered_check", [OFFER, f"update sends set offered_at = null {THIS}"]),
    ("sends_in_hand_check", [f"update sends set state = 'offered' {THIS}"]),
    ("sends_queued_check", [OFFER, f"update sends set state = 'queued' {THIS}"]),
    ("sends_ended_check", [f"update sends set state = 'cancelled' {THIS}"]),
    ("sends_ended_check", [OFFER, DOUBT, f"update sends set ended_at = %(now)s {THIS}"]),
    ("sends_route_key", [ROUTED, ROUTED]),
    ("sends_owner_id_route_id_fkey", [text(route_id="-1")]),
    ("sends_signed_in_check", [text(signed_in_at="%(now)s", route_id="1")]),
    ("sends_one_paste_key", [OFFER, text(), OFFER.replace("%(send)s", OTHER)]),
    ("sends_one_paste_key", [OFFER, DOUBT, text(), OFFER.replace("%(send)s", OTHER)]),
    *[
        ("sends_text_kept", [f"update sends set {change} {THIS}"])
        for change in (
            "text = 'other'",
            "queued_by = 'agent'",
            "queued_via = 'cli'",
            "signed_in_at = %(now)s",
            "created_at = created_at - interval '1 day'",
            "mirrored_id = -1",
        )
    ],
    *[
        ("sends_move", moves)
        for moves in (
            [PROVE.replace("state", "host_id = %(host)s, epoch = 1, offered_at = %(now)s, state")],
            [CANCEL, REFUSE],
            [OFFER, CANCEL],
            [OFFER, REFUSE],
            [OFFER, LOSE],
            [OFFER, DOUBT, BACK],
            [OFFER, DOUBT, LOSE, PROVE],
            [OFFER, PROVE, LOSE],
            [OFFER, BACK, CANCEL, f"update sends set state = 'queued', ended_at = null {THIS}"],
        )
    ],
]
