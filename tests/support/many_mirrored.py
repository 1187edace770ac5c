"""Many hosts, sessions, titles and texts of many owners, written by SQL for tests/test_plans.py.

Every owner has hosts with windows, of whose sessions most ended long ago; their queues are empty,
as queues are, but for a few texts.
"""

LARGE_MIRRORED = (
    *("mirrored", "windows", "panes", "focus_titles", "sends", "session_routes", "session_asks"),
)

# It needs users, agents, messages and turns, as test_plans makes them; triggers are off.
FILL_MIRRORED = """
insert into hosts (owner_id, name, created_at, epoch, node, connected_at)
select u.id, 'box-' || n, now(), 1, 'n', now() from users u cross join generate_series(1, 50) n;
insert into mirrored (owner_id, claude_session, host_id, first_seen_at, last_seen_at)
select h.owner_id, gen_random_uuid()::text, h.id, now(), now() - n * interval '1 hour'
from hosts h cross join generate_series(1, 10) n;
insert into windows (owner_id, host_id, tmux_window, title, place, listed_at)
select h.owner_id, h.id, '@' || n, 'main:' || n, n, now()
from hosts h cross join generate_series(1, 10) n;
insert into panes (owner_id, window_id, tmux_pane, active, mirrored_id, state, state_since)
select w.owner_id, w.id, '%' || w.place, true, m.id, 'working', now()
from (select *, row_number() over (order by id) as nth from windows) w
join (select *, row_number() over (order by id) as nth from mirrored) m using (nth);
insert into focus_titles (owner_id, mirrored_id, title, source, at, noted_at)
select owner_id, id, 'the garden', 'summary', last_seen_at, now() from mirrored;
insert into session_routes (owner_id, message_id, agent_id, mirrored_id, routed_by, state,
                            created_at, deadline_at, ended_at)
select m.owner_id, m.id, m.agent_id, s.id, 'chief', 'timed_out', now(), now(), now()
from (select *, row_number() over (order by owner_id, id) as nth from messages) m
join (select *, row_number() over (order by owner_id, id) as nth from mirrored) s
  on s.nth = m.nth and s.owner_id = m.owner_id;
insert into session_asks (owner_id, mirrored_id, agent_id, turn_id, question, created_at)
select r.owner_id, r.mirrored_id, r.agent_id, t.id, 'Which gate?', now()
from session_routes r join turns t on t.message_id = r.message_id;
insert into sends (owner_id, mirrored_id, text, queued_by, queued_via, state, created_at, host_id,
                   epoch, offers, offered_at, ended_at)
select owner_id, id, 'go on', 'owner', 'browser', 'pasted', now(), host_id, 1, 1, now(), now()
from mirrored;
insert into sends (owner_id, mirrored_id, text, queued_by, queued_via, state, created_at)
select owner_id, id, 'go on', 'owner', 'browser', 'queued', now() from mirrored where id % 1000 = 0;
insert into sends (owner_id, mirrored_id, text, queued_by, queued_via, state, created_at, host_id,
                   epoch, offers, offered_at)
select owner_id, id, 'go on', 'owner', 'browser',
       case when id % 1000 = 0 then 'offered' else 'unconfirmed' end, now(), host_id, 1, 1, now()
from mirrored where id % 200 = 0;
"""

# As System, across owners.
SYSTEMS_MIRRORED = ("muster.mirror.operations.due.",)

# What is asked again and again while nothing happens, or at every list of a host.
BY_INDEX_MIRRORED = {
    "muster.mirror.operations.due.FIND_REFUSED": "sends_waiting_idx",
    "muster.mirror.operations.due.FIND_UNASKED": "sends_one_paste_key",
    "muster.mirror.operations.due.FIND_OLD_FOCUS": "focus_old_idx",
    "muster.mirror.operations.sessions.LIST_SHOWN": "panes_mirrored_idx",
    "muster.mirror.operations.sends.FIND_WAITING": "sends_waiting_idx",
    "muster.mirror.operations.pasting.NEXT_SEND": "sends_waiting_idx",
    "muster.mirror.operations.unconfirmed.RECOVER_SENDS": "sends_offered_idx",
}
