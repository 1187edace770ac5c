-- What is put before the owner to answer, what a chief settles, and retries of unconfirmed messages.

-- asked_by says whose words the question is: agent_id is null for muster's own. plugin_message_id is the message that
-- muster asks about, and there is one such ask a message, ever. answer is null too when longer words of a chat settled it.
create table asks (
    id                bigint generated always as identity primary key,
    owner_id          bigint not null references users (id),
    asked_by          text not null constraint asks_asked_by_check check (asked_by in ('agent', 'chief', 'muster')),
    agent_id          bigint,
    question          text not null constraint asks_question_check check (char_length(question) between 1 and 2000),
    answers           text[] not null constraint asks_answers_check check (cardinality(answers) <= 4),
    message_id        bigint,
    task_id           bigint,
    plugin_message_id bigint constraint asks_plugin_message_key unique,
    state             text not null constraint asks_state_check
                      check (state in ('open', 'answered', 'dismissed', 'cancelled', 'expired')),
    created_at        timestamptz not null,
    expires_at        timestamptz not null,
    answer            text constraint asks_answer_check check (octet_length(answer) between 1 and 4096),
    answered_via      text,
    ended_at          timestamptz,
    foreign key (owner_id, agent_id) references agents (owner_id, id),
    foreign key (owner_id, message_id) references messages (owner_id, id),
    foreign key (owner_id, task_id) references tasks (owner_id, id),
    unique (owner_id, id),
    constraint asks_asker_check check ((asked_by = 'muster') = (agent_id is null)),
    constraint asks_about_check check (plugin_message_id is null or (agent_id is null and message_id = plugin_message_id)),
    constraint asks_answered_check check ((answered_via is not null) = (state = 'answered') and (answer is null or state = 'answered')),
    constraint asks_ended_check check ((ended_at is not null) = (state <> 'open'))
);
create index asks_open_idx on asks (owner_id, id desc) where state = 'open';
create index asks_listing_idx on asks (owner_id, id desc);
create index asks_expiry_idx on asks (expires_at) where state = 'open';
create index asks_asker_idx on asks (agent_id) where state = 'open';
create index asks_about_idx on asks (owner_id, plugin_message_id) where state = 'open' and plugin_message_id is not null;

create trigger asks_begin after insert on asks for each row execute function begin_at_the_beginning('open');
create function asks_check_move() returns trigger language plpgsql as $$
begin
    if (new.id, new.owner_id, new.asked_by, new.agent_id, new.question, new.answers, new.message_id, new.task_id,
        new.plugin_message_id, new.created_at, new.expires_at)
       is distinct from
       (old.id, old.owner_id, old.asked_by, old.agent_id, old.question, old.answers, old.message_id, old.task_id,
        old.plugin_message_id, old.created_at, old.expires_at)
    then
        raise exception 'a question that was asked cannot be changed' using errcode = 'restrict_violation',
            constraint = 'asks_question_kept';
    end if;
    if old.state <> 'open' then
        raise exception 'ask % has ended', old.id using errcode = 'restrict_violation', constraint = 'asks_move';
    end if;
    return new;
end $$;
create trigger asks_move before update on asks for each row execute function asks_check_move();

alter table asks enable row level security;
alter table asks force row level security;
create policy asks_own on asks using (owner_id = acting_owner());
create policy asks_system on asks for select to muster_system using (true);
grant select, insert on asks to muster_app;
grant update (state, answer, answered_via, ended_at) on asks to muster_app;
grant select (id, owner_id, state, expires_at, plugin_message_id) on asks to muster_system;

-- settle_reason is why a delivered message needs nothing more, written at dispositioned_at (settled_at is of its delivery);
-- retries counts how often its owner had an unconfirmed one handed over again.
alter table messages
    add column settle_reason text constraint messages_settle_reason_check check (char_length(settle_reason) between 1 and 2000),
    add column dispositioned_at timestamptz,
    add column retries integer not null default 0,
    add constraint messages_dispositioned_check check ((settle_reason is null) = (dispositioned_at is null));
grant update (settle_reason, dispositioned_at, retries) on messages to muster_app;
grant select (no_reply, settled_at, dispositioned_at) on messages to muster_system;

create or replace function messages_keep_content() returns trigger language plpgsql as $$
begin
    if (new.id, new.owner_id, new.plugin_id, new.external_id, new.sender, new.subject, new.body, new.received_at,
        new.no_reply, new.sender_verified, new.thread, new.human_conversation, new.created_at)
       is distinct from
       (old.id, old.owner_id, old.plugin_id, old.external_id, old.sender, old.subject, old.body, old.received_at,
        old.no_reply, old.sender_verified, old.thread, old.human_conversation, old.created_at)
    then
        raise exception 'a stored message cannot be changed' using errcode = 'restrict_violation',
            constraint = 'messages_content_kept';
    end if;
    if old.settle_reason is not null
       and (new.settle_reason, new.dispositioned_at) is distinct from (old.settle_reason, old.dispositioned_at)
    then
        raise exception 'message % was settled already', old.id using errcode = 'restrict_violation',
            constraint = 'messages_settled_once';
    end if;
    return new;
end $$;

-- An unconfirmed message comes back to the queue by a retry alone, which is counted.
create or replace function messages_check_move() returns trigger language plpgsql as $$
begin
    if old.state <> new.state and (old.state, new.state) not in (
        ('queued', 'delivering'), ('delivering', 'delivered'), ('delivering', 'unconfirmed'), ('delivering', 'queued'),
        ('unconfirmed', 'queued'))
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
drop trigger messages_move on messages;
create trigger messages_move before update of state, retries on messages for each row execute function messages_check_move();

create index messages_awaiting_idx on messages (plugin_id, settled_at)
    where state = 'delivered' and dispositioned_at is null and not no_reply;

-- Nothing is asked about what was waiting before this: each is settled, by the sweep's predicate. The owner of the tables
-- may be held by row-level security like everybody, so it is let off for these statements. The time is that of the
-- migration before this one, which the same start of muster applied: that one made the table of tasks, so none cites one.
alter table messages no force row level security;
alter table drafts no force row level security;
alter table audit no force row level security;
with clock as (
    select max(applied_at) as read_at from migrations
), settled as (
    update messages m set settle_reason = 'pre-existing', dispositioned_at = clock.read_at
    from clock
    where m.state = 'delivered' and not m.no_reply
      and not exists (
          select from drafts d
          where d.owner_id = m.owner_id and d.message_id = m.id
            and d.state in ('pending', 'approved', 'sent', 'unconfirmed')
            and not (d.state in ('pending', 'approved') and d.claimed_at is null and d.expires_at <= clock.read_at))
    returning m.owner_id, m.id, m.settle_reason, m.dispositioned_at
)
insert into audit (owner_id, at, actor, via, action, subject, data)
select owner_id, dispositioned_at, 'muster', 'muster', 'plugin.message.settled', 'message:' || id,
       jsonb_build_object('reason', settle_reason)
from settled;
alter table messages force row level security;
alter table drafts force row level security;
alter table audit force row level security;

-- What happened to one thing, in its order: a page of the log about a message, a draft or a task.
create index audit_subject_idx on audit (owner_id, subject, id desc);
