-- What muster routes itself: threads, pull requests, resumes.

-- A thread of agent mail that a session started: a reply on it is the session's. The first report stays.
create table plugin_threads (
    id          bigint generated always as identity primary key,
    owner_id    bigint not null references users (id),
    thread      text not null constraint plugin_threads_thread_check check (octet_length(thread) between 1 and 200),
    mirrored_id bigint not null,
    bound_at    timestamptz not null,
    foreign key (owner_id, mirrored_id) references mirrored (owner_id, id),
    unique (owner_id, id),
    constraint plugin_threads_thread_key unique (owner_id, thread)
);

-- Which session created a pull request, or pushed a branch, as its host's hook reported; seen_at is its newest report's.
-- repo_key is repo without case. host_id is the host that showed the session then, if one did.
create table session_prs (
    id             bigint generated always as identity primary key,
    owner_id       bigint not null references users (id),
    repo           text not null constraint session_prs_repo_check
                   check (repo ~ '^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$' and char_length(repo) <= 200),
    repo_key       text not null constraint session_prs_repo_key_check check (repo_key = lower(repo collate "C")),
    kind           text not null constraint session_prs_kind_check check (kind in ('gh-pr-create', 'git-push')),
    pr             integer constraint session_prs_pr_check check (pr >= 1),
    head_ref       text constraint session_prs_head_ref_check check (char_length(head_ref) between 1 and 250),
    claude_session text not null constraint session_prs_session_check
                   check (claude_session ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
    host_id        bigint,
    first_seen_at  timestamptz not null,
    seen_at        timestamptz not null,
    foreign key (owner_id, host_id) references hosts (owner_id, id),
    unique (owner_id, id),
    constraint session_prs_what_check check (
        case kind when 'gh-pr-create' then pr is not null else pr is null and head_ref is not null end)
);
create unique index session_prs_created_key on session_prs (owner_id, repo_key, pr, claude_session) where kind = 'gh-pr-create';
create unique index session_prs_pushed_key on session_prs (owner_id, repo_key, head_ref, claude_session) where kind = 'git-push';
create index session_prs_session_idx on session_prs (owner_id, claude_session, seen_at desc);
create index session_prs_seen_idx on session_prs (owner_id, seen_at);

-- An ended session that is to be resumed for a message: one row a message. wanted_host_id is the only host that is asked,
-- if there is one; asked are those that were, host_id the last. A row that joined another waits for that one's window.
-- started_at: the host started a window, or may have. waits_until: how long the message's route is tried.
create table mail_resumes (
    id             bigint generated always as identity primary key,
    owner_id       bigint not null,
    message_id     bigint not null constraint mail_resumes_message_key unique,
    claude_session text not null constraint mail_resumes_session_check
                   check (claude_session ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
    cause          text not null constraint mail_resumes_cause_check check (cause in ('thread', 'review')),
    routed_via     text not null constraint mail_resumes_via_check check (char_length(routed_via) between 1 and 400),
    wanted_host_id bigint,
    joined_id      bigint,
    state          text not null constraint mail_resumes_state_check
                   check (state in ('wanted', 'asking', 'waiting', 'routed', 'refused', 'timed_out')),
    created_at     timestamptz not null,
    asked          bigint[] not null default '{}',
    host_id        bigint,
    epoch          bigint,
    asked_at       timestamptz,
    started_at     timestamptz,
    tmux_window    text constraint mail_resumes_window_check check (char_length(tmux_window) between 1 and 40),
    waits_until    timestamptz,
    route_id       bigint constraint mail_resumes_route_key unique,
    ended_at       timestamptz,
    why            text constraint mail_resumes_why_check check (char_length(why) between 1 and 500),
    foreign key (owner_id, message_id) references messages (owner_id, id),
    foreign key (owner_id, wanted_host_id) references hosts (owner_id, id),
    foreign key (owner_id, host_id) references hosts (owner_id, id),
    foreign key (owner_id, route_id) references session_routes (owner_id, id),
    unique (owner_id, id),
    foreign key (owner_id, joined_id) references mail_resumes (owner_id, id),
    constraint mail_resumes_asked_check check ((host_id is null) = (asked_at is null) and (host_id is null) = (epoch is null)),
    constraint mail_resumes_in_hand_check check (state <> 'asking' or host_id is not null),
    constraint mail_resumes_started_check check (started_at is null or host_id is not null),
    constraint mail_resumes_joined_check check (joined_id is null or host_id is null),
    constraint mail_resumes_waits_check check (state <> 'waiting' or waits_until is not null),
    constraint mail_resumes_routed_check check ((state = 'routed') = (route_id is not null)),
    constraint mail_resumes_ended_check check ((ended_at is not null) = (state in ('routed', 'refused', 'timed_out'))),
    constraint mail_resumes_why_not_check check (state not in ('refused', 'timed_out') or why is not null)
);
-- A session is resumed by one message at a time; others join it.
create unique index mail_resumes_one_key on mail_resumes (owner_id, claude_session)
    where state in ('wanted', 'asking', 'waiting') and joined_id is null;
create index mail_resumes_open_idx on mail_resumes (id) where state in ('wanted', 'asking', 'waiting');
create index mail_resumes_session_idx on mail_resumes (owner_id, claude_session, started_at) where started_at is not null;
create index mail_resumes_host_idx on mail_resumes (owner_id, host_id, started_at) where started_at is not null;

create trigger mail_resumes_begin after insert on mail_resumes for each row execute function begin_at_the_beginning('wanted');
create function mail_resumes_check_move() returns trigger language plpgsql as $$
begin
    if (new.id, new.owner_id, new.message_id, new.claude_session, new.cause, new.routed_via, new.wanted_host_id, new.joined_id,
        new.created_at)
       is distinct from
       (old.id, old.owner_id, old.message_id, old.claude_session, old.cause, old.routed_via, old.wanted_host_id, old.joined_id,
        old.created_at)
    then
        raise exception 'what was to be resumed cannot be changed' using errcode = 'restrict_violation',
            constraint = 'mail_resumes_kept';
    end if;
    if old.state <> new.state and (old.state, new.state) not in (
        ('wanted', 'asking'), ('wanted', 'waiting'), ('wanted', 'refused'), ('wanted', 'timed_out'),
        ('asking', 'wanted'), ('asking', 'waiting'), ('asking', 'refused'), ('asking', 'timed_out'),
        ('waiting', 'wanted'), ('waiting', 'routed'), ('waiting', 'refused'), ('waiting', 'timed_out'))
    then
        raise exception 'a % resume cannot become %', old.state, new.state using errcode = 'restrict_violation',
            constraint = 'mail_resumes_move';
    end if;
    return new;
end $$;
create trigger mail_resumes_move before update on mail_resumes for each row execute function mail_resumes_check_move();

do $$
declare
    owned text;
begin
    foreach owned in array array['plugin_threads', 'session_prs', 'mail_resumes'] loop
        execute format('alter table %I enable row level security', owned);
        execute format('alter table %I force row level security', owned);
        execute format('create policy %I on %I using (owner_id = acting_owner())', owned || '_own', owned);
    end loop;
end $$;
create policy mail_resumes_system on mail_resumes for select to muster_system using (true);
grant select, insert on plugin_threads, session_prs, mail_resumes to muster_app;
grant update (repo, head_ref, host_id, seen_at) on session_prs to muster_app;
grant delete on session_prs to muster_app;
grant update (state, asked, host_id, epoch, asked_at, started_at, tmux_window, waits_until, route_id, ended_at, why)
    on mail_resumes to muster_app;
grant select (id, owner_id, state) on mail_resumes to muster_system;

-- A message whose session is being resumed stays in the queue, and no delivery begins before this.
alter table messages add column held_until timestamptz;
grant update (held_until) on messages to muster_app;
