-- Machines that run `muster mirror`, what their terminals show, and texts that wait for a session to fall idle.

-- A machine of the owner's; its mmh_ token's holder. machine is the name that it gives itself, epoch counts the sockets
-- that it opened, node is the server that holds the newest, left_at when the last one was closed.
create table hosts (
    id           bigint generated always as identity primary key,
    owner_id     bigint not null references users (id),
    name         text not null constraint hosts_name_check check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    created_at   timestamptz not null,
    retired_at   timestamptz,
    machine      text constraint hosts_machine_check check (char_length(machine) between 1 and 80),
    interactive  boolean not null default false,
    resume_spawn boolean not null default false,
    epoch        bigint not null default 0,
    node         text,
    connected_at timestamptz,
    left_at      timestamptz,
    unique (owner_id, id)
);
create unique index hosts_live_name_key on hosts (owner_id, name) where retired_at is null;

-- A Claude Code session that a host ever showed. host_id is the host that showed it last; cwd and repo are what its
-- newest focus or pane said.
create table mirrored (
    id             bigint generated always as identity primary key,
    owner_id       bigint not null references users (id),
    claude_session text not null constraint mirrored_session_check
                   check (claude_session ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
    host_id        bigint not null,
    cwd            text constraint mirrored_cwd_check check (char_length(cwd) between 1 and 1024),
    repo           text constraint mirrored_repo_check check (char_length(repo) between 1 and 200),
    first_seen_at  timestamptz not null,
    last_seen_at   timestamptz not null,
    foreign key (owner_id, host_id) references hosts (owner_id, id),
    unique (owner_id, id),
    constraint mirrored_session_key unique (owner_id, claude_session)
);
create index mirrored_seen_idx on mirrored (owner_id, last_seen_at desc, id desc);

-- What a host listed last, whole; kept a day when the host is gone. place is the window's place in the list.
create table windows (
    id          bigint generated always as identity primary key,
    owner_id    bigint not null,
    host_id     bigint not null,
    tmux_window text not null constraint windows_window_check check (char_length(tmux_window) between 1 and 40),
    title       text not null constraint windows_title_check check (char_length(title) <= 200),
    label       text constraint windows_label_check check (char_length(label) between 1 and 80),
    place       integer not null,
    listed_at   timestamptz not null,
    foreign key (owner_id, host_id) references hosts (owner_id, id),
    unique (owner_id, id),
    constraint windows_window_key unique (host_id, tmux_window)
);

-- idle_since is by muster's clock; null unless idle.
create table panes (
    id          bigint generated always as identity primary key,
    owner_id    bigint not null,
    window_id   bigint not null,
    tmux_pane   text not null constraint panes_pane_check check (char_length(tmux_pane) between 1 and 40),
    active      boolean not null,
    mirrored_id bigint,
    state       text not null constraint panes_state_check check (state in ('working', 'waiting', 'idle', 'unknown')),
    state_since timestamptz not null,
    idle_since  timestamptz,
    cwd         text constraint panes_cwd_check check (char_length(cwd) between 1 and 1024),
    repo        text constraint panes_repo_check check (char_length(repo) between 1 and 200),
    foreign key (owner_id, window_id) references windows (owner_id, id) on delete cascade,
    foreign key (owner_id, mirrored_id) references mirrored (owner_id, id),
    constraint panes_pane_key unique (window_id, tmux_pane),
    constraint panes_idle_check check ((idle_since is not null) = (state = 'idle'))
);
create index panes_mirrored_idx on panes (owner_id, mirrored_id) where mirrored_id is not null;

-- What a session or an agent was about, and when; kept 30 days. Exactly one of the two is named.
create table focus_titles (
    id          bigint generated always as identity primary key,
    owner_id    bigint not null references users (id),
    mirrored_id bigint,
    agent_id    bigint,
    title       text not null constraint focus_title_check check (char_length(title) between 1 and 120),
    source      text not null constraint focus_source_check check (source in ('summary', 'prompt', 'task')),
    cwd         text constraint focus_cwd_check check (char_length(cwd) between 1 and 1024),
    at          timestamptz not null,
    noted_at    timestamptz not null,
    foreign key (owner_id, mirrored_id) references mirrored (owner_id, id),
    foreign key (owner_id, agent_id) references agents (owner_id, id),
    constraint focus_whose_check check ((mirrored_id is null) <> (agent_id is null))
);
create unique index focus_once_key on focus_titles (mirrored_id, at, title) where mirrored_id is not null;
create index focus_window_idx on focus_titles (owner_id, at desc);
create index focus_session_idx on focus_titles (mirrored_id, at desc) where mirrored_id is not null;
create index focus_old_idx on focus_titles (noted_at);

-- The send queue. signed_in_at is the sign-in of the browser session that queued the text; a row of a route has none.
-- offered: handed to the host of (host_id, epoch), which may be pasting it. unconfirmed holds the queue until its owner
-- or a late proof says what became of it: pasted, or lost.
create table sends (
    id           bigint generated always as identity primary key,
    owner_id     bigint not null,
    mirrored_id  bigint not null,
    text         text not null constraint sends_text_check check (octet_length(text) between 1 and 98304),
    queued_by    text not null,
    queued_via   text not null,
    signed_in_at timestamptz,
    route_id     bigint constraint sends_route_key unique,
    state        text not null constraint sends_state_check
                 check (state in ('queued', 'offered', 'pasted', 'unconfirmed', 'lost', 'cancelled', 'refused')),
    created_at   timestamptz not null,
    host_id      bigint,
    epoch        bigint,
    offers       integer not null default 0,
    offered_at   timestamptz,
    ended_at     timestamptz,
    why          text constraint sends_why_check check (char_length(why) between 1 and 500),
    ask_id       bigint,
    foreign key (owner_id, mirrored_id) references mirrored (owner_id, id),
    foreign key (owner_id, host_id) references hosts (owner_id, id),
    foreign key (owner_id, ask_id) references asks (owner_id, id),
    unique (owner_id, id),
    constraint sends_offered_check check ((host_id is null) = (epoch is null) and (host_id is null) = (offered_at is null)),
    constraint sends_in_hand_check check (state not in ('offered', 'pasted', 'unconfirmed', 'lost') or host_id is not null),
    constraint sends_queued_check check (state <> 'queued' or host_id is null),
    constraint sends_ended_check check ((ended_at is not null) = (state in ('pasted', 'lost', 'cancelled', 'refused'))),
    constraint sends_signed_in_check check (route_id is null or signed_in_at is null)
);
-- One paste at a time for a session, and none beside one of which nobody knows what became of it.
create unique index sends_one_paste_key on sends (mirrored_id) where state in ('offered', 'unconfirmed');
create index sends_waiting_idx on sends (mirrored_id, id) where state = 'queued';
create index sends_listing_idx on sends (mirrored_id, id desc);
create index sends_offered_idx on sends (host_id) where state = 'offered';
create unique index sends_ask_key on sends (ask_id) where ask_id is not null;
create index sends_routed_idx on sends (created_at) where state = 'queued' and route_id is not null;

create trigger sends_begin after insert on sends for each row execute function begin_at_the_beginning('queued');
create function sends_check_move() returns trigger language plpgsql as $$
begin
    if (new.id, new.owner_id, new.mirrored_id, new.text, new.queued_by, new.queued_via, new.signed_in_at, new.route_id, new.created_at)
       is distinct from
       (old.id, old.owner_id, old.mirrored_id, old.text, old.queued_by, old.queued_via, old.signed_in_at, old.route_id, old.created_at)
    then
        raise exception 'a queued text cannot be changed' using errcode = 'restrict_violation', constraint = 'sends_text_kept';
    end if;
    if old.state <> new.state and (old.state, new.state) not in (
        ('queued', 'offered'), ('queued', 'cancelled'), ('queued', 'refused'),
        ('offered', 'queued'), ('offered', 'pasted'), ('offered', 'unconfirmed'),
        ('unconfirmed', 'pasted'), ('unconfirmed', 'lost'))
    then
        raise exception 'a % text cannot become %', old.state, new.state using errcode = 'restrict_violation',
            constraint = 'sends_move';
    end if;
    return new;
end $$;
create trigger sends_move before update on sends for each row execute function sends_check_move();

do $$
declare
    owned text;
begin
    foreach owned in array array['hosts', 'mirrored', 'windows', 'panes', 'focus_titles', 'sends'] loop
        execute format('alter table %I enable row level security', owned);
        execute format('alter table %I force row level security', owned);
        execute format('create policy %I on %I using (owner_id = acting_owner())', owned || '_own', owned);
    end loop;
    foreach owned in array array['hosts', 'windows', 'sends', 'focus_titles'] loop
        execute format('create policy %I on %I for select to muster_system using (true)', owned || '_system', owned);
    end loop;
end $$;
grant select, insert on hosts, mirrored, windows, panes, focus_titles, sends to muster_app;
grant update (retired_at, machine, interactive, resume_spawn, epoch, node, connected_at, left_at) on hosts to muster_app;
grant update (host_id, cwd, repo, last_seen_at) on mirrored to muster_app;
grant update (title, label, place, listed_at) on windows to muster_app;
grant update (active, mirrored_id, state, state_since, idle_since, cwd, repo) on panes to muster_app;
grant update (state, host_id, epoch, offers, offered_at, ended_at, why, ask_id) on sends to muster_app;
grant delete on windows, panes, focus_titles to muster_app;
grant select (id, owner_id, name, retired_at, epoch, node, connected_at, left_at) on hosts to muster_system;
grant select (id, owner_id, host_id) on windows to muster_system;
grant select (id, seen_at) on nodes to muster_system;
grant select (id, owner_id, mirrored_id, state, created_at, signed_in_at, route_id, host_id, epoch, offered_at, ask_id)
    on sends to muster_system;
grant select (id, owner_id, noted_at) on focus_titles to muster_system;
