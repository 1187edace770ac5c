"""Many threads, authors and resumes of many owners, written by SQL for tests/test_plans.py."""

LARGE_SELF_ROUTED = ("plugin_threads", "session_prs", "mail_resumes")

# It needs messages and mirrored sessions, as test_plans makes them; triggers are off.
FILL_SELF_ROUTED = """
insert into plugin_threads (owner_id, thread, mirrored_id, bound_at)
select owner_id, 't-' || id, id, now() from mirrored;
insert into session_prs (owner_id, repo, repo_key, kind, pr, head_ref, claude_session, host_id,
                         first_seen_at, seen_at)
select owner_id, 'example/garden', 'example/garden',
       case when id % 2 = 0 then 'gh-pr-create' else 'git-push' end,
       case when id % 2 = 0 then id end, case when id % 2 = 1 then 'roses-' || id end,
       claude_session, host_id, now(), now()
from mirrored;
insert into mail_resumes (owner_id, message_id, claude_session, cause, routed_via, state,
                          created_at, asked, host_id, epoch, asked_at, started_at, ended_at, why)
select m.owner_id, m.id, s.claude_session, 'thread', 'thread', 'timed_out', now(),
       array[s.host_id], s.host_id, 1, now(), now(), now(), 'no window'
from (select *, row_number() over (order by owner_id, id) as nth from messages) m
join (select *, row_number() over (order by owner_id, id) as nth from mirrored) s
  on s.nth = m.nth and s.owner_id = m.owner_id;
"""

# As System, across owners.
SYSTEMS_SELF_ROUTED = ("muster.mirror.operations.resuming.FIND_OPEN",)

# What is asked again and again while nothing happens, or for each mail.
BY_INDEX_SELF_ROUTED = {
    "muster.mirror.operations.resuming.FIND_OPEN": "mail_resumes_open_idx",
    "muster.routes.operations.threads.FIND_THREAD": "plugin_threads_thread_key",
    "muster.routes.operations.authors.FIND_AUTHOR": "session_prs_created_key",
}
