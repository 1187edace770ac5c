-- A message that was handed to a session, whose answer becomes the reply: routes, and what they change elsewhere.

-- agent_id is the chief that holds the message. handback is the turn or note that is owed to it, once at most, since the
-- route ended without its knowing why. relay_due_at: an answer that could not be relayed yet is relayed then.
create table session_routes (
    id               bigint generated always as identity primary key,
    owner_id         bigint not null,
    message_id       bigint not null,
    agent_id         bigint not null,
    mirrored_id      bigint not null,
    routed_by        text not null constraint session_routes_by_check check (routed_by in ('chief', 'owner', 'muster')),
    routed_via       text constraint session_routes_via_check check (char_length(routed_via) between 1 and 400),
    state            text not null constraint session_routes_state_check
                     check (state in ('routed', 'answered', 'relayed', 'fallback', 'timed_out', 'failed', 'owner_answered')),
    created_at       timestamptz not null,
    deadline_at      timestamptz not null,
    answer           text constraint session_routes_answer_check check (octet_length(answer) between 1 and 16384),
    answered_at      timestamptz,
    answered_via     text,
    relay_due_at     timestamptz,
    owner_replied_at timestamptz,
    ended_at         timestamptz,
    why              text constraint session_routes_why_check check (char_length(why) between 1 and 500),
    handback         text not null default 'none' constraint session_routes_handback_check
                     check (handback in ('none', 'owed', 'delivered')),
    handed_back_at   timestamptz,
    foreign key (owner_id, message_id) references messages (owner_id, id),
    foreign key (owner_id, agent_id) references agents (owner_id, id),
    foreign key (owner_id, mirrored_id) references mirrored (owner_id, id),
    unique (owner_id, id),
    constraint session_routes_answered_check
        check ((answer is null) = (answered_at is null) and (answer is null) = (answered_via is null)
               and (state not in ('answered', 'relayed', 'fallback') or answer is not null)
               and (state not in ('routed', 'timed_out', 'owner_answered') or answer is null)),
    constraint session_routes_ended_check check ((ended_at is null) = (state in ('routed', 'answered'))),
    constraint session_routes_relay_check check (relay_due_at is null or state = 'answered'),
    constraint session_routes_owner_check check ((owner_replied_at is not null) = (state = 'owner_answered')),
    constraint session_routes_owed_check check (handback = 'none' or state in ('timed_out', 'failed')),
    constraint session_routes_handed_back_check check ((handed_back_at is not null) = (handback = 'delivered'))
);
create unique index session_routes_one_open_key on session_routes (message_id) where state in ('routed', 'answered');
create index session_routes_message_idx on session_routes (message_id, id desc);
create index session_routes_deadline_idx on session_routes (deadline_at) where state = 'routed';
create index session_routes_relay_idx on session_routes (relay_due_at) where state = 'answered';
create index session_routes_owed_idx on session_routes (ended_at) where handback = 'owed';
create index session_routes_session_idx on session_routes (mirrored_id) where state = 'routed';

create trigger session_routes_begin after insert on session_routes for each row execute function begin_at_the_beginning('routed');
create function session_routes_check_move() returns trigger language plpgsql as $$
begin
    if (new.id, new.owner_id, new.message_id, new.agent_id, new.mirrored_id, new.routed_by, new.routed_via, new.created_at, new.deadline_at)
       is distinct from
       (old.id, old.owner_id, old.message_id, old.agent_id, old.mirrored_id, old.routed_by, old.routed_via, old.created_at, old.deadline_at)
       or old.answer is not null and new.answer is distinct from old.answer
    then
        raise exception 'a route that was made cannot be changed' using errcode = 'restrict_violation',
            constraint = 'session_routes_kept';
    end if;
    if old.state <> new.state and (old.state, new.state) not in (
        ('routed', 'answered'), ('routed', 'timed_out'), ('routed', 'failed'), ('routed', 'owner_answered'),
        ('answered', 'relayed'), ('answered', 'fallback'), ('answered', 'failed'))
    then
        raise exception 'a % route cannot become %', old.state, new.state using errcode = 'restrict_violation',
            constraint = 'session_routes_move';
    end if;
    if old.handback <> new.handback and (old.handback, new.handback) not in (('none', 'owed'), ('owed', 'delivered'))
       or old.handback = 'none' and new.handback = 'owed' and old.ended_at is not null
    then
        raise exception 'a hand-back is owed once, and from the end on' using errcode = 'restrict_violation',
            constraint = 'session_routes_handback_move';
    end if;
    return new;
end $$;
create trigger session_routes_move before update on session_routes for each row execute function session_routes_check_move();

alter table session_routes enable row level security;
alter table session_routes force row level security;
create policy session_routes_own on session_routes using (owner_id = acting_owner());
create policy session_routes_system on session_routes for select to muster_system using (true);
grant select, insert on session_routes to muster_app;
grant update (state, answer, answered_at, answered_via, relay_due_at, owner_replied_at, ended_at, why, handback, handed_back_at)
    on session_routes to muster_app;
grant select (id, owner_id, mirrored_id, state, deadline_at, relay_due_at, handback, ended_at) on session_routes to muster_system;

alter table sends add foreign key (owner_id, route_id) references session_routes (owner_id, id);

-- A route becomes one reply at most.
alter table drafts add column route_id bigint constraint drafts_route_key unique;
alter table drafts add foreign key (owner_id, route_id) references session_routes (owner_id, id);

-- muster may hand a message to the chief without a turn: it goes to a session, or is answered in code.
create or replace function messages_check_move() returns trigger language plpgsql as $$
begin
    if old.state <> new.state and (old.state, new.state) not in (
        ('queued', 'delivering'), ('queued', 'delivered'), ('delivering', 'delivered'), ('delivering', 'unconfirmed'),
        ('delivering', 'queued'), ('unconfirmed', 'queued'))
    then
        raise exception 'a % message cannot become %', old.state, new.state using errcode = 'restrict_violation',
            constraint = 'messages_move';
    end if;
    if new.retries <> old.retries + (old.state = 'unconfirmed' and new.state = 'queued')::int then
        raise exception 'message % was retried % times', old.id, old.retries using errcode = 'restrict_violation',
            constraint = 'messages_retries';
    end if;
    return new;
end $$;

-- A note stands in a chief's conversation and was never a turn.
alter table turns drop constraint turns_state_check;
alter table turns add constraint turns_state_check
    check (state in ('queued', 'delivering', 'delivered', 'unconfirmed', 'noted'));
alter table turns drop constraint turns_words_check;
alter table turns add constraint turns_words_check
    check (octet_length(words) between 1 and case when said_by = 'muster' then 98304 else 16384 end);
alter table turns drop constraint turns_begun_check;
alter table turns add constraint turns_begun_check
    check ((state in ('queued', 'noted')) = (begun_at is null) and (epoch is null) = (begun_at is null));
alter table turns drop constraint turns_ended_check;
alter table turns add constraint turns_ended_check
    check ((ended_at is not null) = (state in ('delivered', 'unconfirmed', 'noted')));
alter table turns add constraint turns_noted_check check (state <> 'noted' or said_by = 'muster');
-- The turn with which the agent got the note.
alter table turns add column read_in bigint constraint turns_read_check check (read_in is null or state = 'noted');
create index turns_unread_idx on turns (conversation_id) where state = 'noted' and read_in is null;
create index turns_read_idx on turns (read_in) where read_in is not null;
grant update (read_in) on turns to muster_app;
-- What ended does not change, but that a note is read.
drop trigger turns_content_kept on turns;
create trigger turns_content_kept before update on turns for each row
    when ((new.id, new.owner_id, new.conversation_id, new.agent_id, new.message_id, new.words, new.said_by, new.ask_id, new.created_at)
          is distinct from
          (old.id, old.owner_id, old.conversation_id, old.agent_id, old.message_id, old.words, old.said_by, old.ask_id, old.created_at)
          or old.ended_at is not null and old.state <> 'noted' and new is distinct from old
          or old.state = 'noted' and (new.attempt, new.answer, new.left_out, new.usage, new.failure, new.error, new.ended_at)
             is distinct from (old.attempt, old.answer, old.left_out, old.usage, old.failure, old.error, old.ended_at))
    execute function turns_refuse_change();
drop trigger turns_begin on turns;
create trigger turns_begin after insert on turns for each row
    when (new.state <> case when new.message_id is null then 'queued' else 'delivering' end and new.state <> 'noted')
    execute function turns_refuse_begin();
