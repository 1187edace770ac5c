-- Tasks with their tags and comments (plugins: "one task per upstream record", "When a message asks for work").

-- message_id is the plugin message that a task cites, merged_into the winner of the merge that it lost.
create table tasks (
    id          bigint generated always as identity primary key,
    owner_id    bigint not null references users (id),
    title       text not null constraint tasks_title_check check (char_length(title) between 1 and 512),
    body        text not null constraint tasks_body_check check (octet_length(body) <= 16384),
    status      text not null constraint tasks_status_check
                check (status in ('open', 'in_progress', 'ready_for_review', 'complete', 'dismissed')),
    repository  text constraint tasks_repository_check check (repository ~ '^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$'),
    model       text constraint tasks_model_check check (char_length(model) between 1 and 100),
    message_id  bigint,
    created_by  text not null,
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    closed_at   timestamptz,
    merged_into bigint,
    foreign key (owner_id, message_id) references messages (owner_id, id),
    foreign key (owner_id, merged_into) references tasks (owner_id, id),
    unique (owner_id, id),
    constraint tasks_closed_check check ((closed_at is not null) = (status in ('complete', 'dismissed'))),
    constraint tasks_merged_check check (merged_into <> id)
);
create index tasks_listing_idx on tasks (owner_id, id desc);
create index tasks_open_idx on tasks (owner_id, id desc)
    where status in ('open', 'in_progress', 'ready_for_review') and merged_into is null;
create index tasks_status_idx on tasks (owner_id, status, id desc);
create index tasks_merged_idx on tasks (owner_id, merged_into) where merged_into is not null;
create index tasks_message_idx on tasks (owner_id, message_id) where message_id is not null;

create table task_tags (
    owner_id bigint not null,
    task_id  bigint not null,
    tag      text not null constraint task_tags_tag_check check (tag ~ '^[a-z0-9][a-z0-9._/:-]{0,63}$'),
    primary key (task_id, tag),
    foreign key (owner_id, task_id) references tasks (owner_id, id)
);
create index task_tags_tag_idx on task_tags (owner_id, tag, task_id desc);

-- A comment that was retracted keeps its text: a plugin that repeats it is not to have it back.
create table task_comments (
    id           bigint generated always as identity primary key,
    owner_id     bigint not null,
    task_id      bigint not null,
    author       text not null,
    body         text not null constraint task_comments_body_check check (octet_length(body) between 1 and 16384),
    body_sha256  bytea not null constraint task_comments_sha256_check check (body_sha256 = sha256(convert_to(body, 'UTF8'))),
    created_at   timestamptz not null,
    retracted_at timestamptz,
    foreign key (owner_id, task_id) references tasks (owner_id, id),
    unique (owner_id, id)
);
create index task_comments_thread_idx on task_comments (owner_id, task_id, id desc);
-- A plugin's comment stands once in a thread (plugins: "It is idempotent, so a plugin can always resend").
create unique index task_comments_once_key on task_comments (task_id, author, body_sha256) where author like 'plugin:%';

-- What a chief spent of its day, one row for each gated task that it asked for.
create index audit_gated_idx on audit (owner_id, subject, at) where action = 'plugin.task_gated';

-- A loser stays one, and what was merged makes no circle: nobody wins who lost.
create function tasks_check_merge() returns trigger language plpgsql set search_path = muster, pg_temp as $$
begin
    if tg_op = 'UPDATE' then
        if (new.id, new.owner_id, new.message_id, new.created_by, new.created_at)
           is distinct from (old.id, old.owner_id, old.message_id, old.created_by, old.created_at) then
            raise exception 'where a task came from cannot be changed' using errcode = 'restrict_violation',
                constraint = 'tasks_origin_kept';
        end if;
        if old.merged_into is not null and new.merged_into is distinct from old.merged_into then
            raise exception 'task % was merged already', old.id using errcode = 'restrict_violation',
                constraint = 'tasks_merged_once';
        end if;
        if old.merged_into is not null then
            return new;
        end if;
    end if;
    if new.merged_into is not null and exists (
        select from tasks where owner_id = new.owner_id and id = new.merged_into and merged_into is not null)
    then
        raise exception 'task % was merged away itself', new.merged_into using errcode = 'restrict_violation',
            constraint = 'tasks_winner_lives';
    end if;
    return new;
end $$;
create trigger tasks_merged_once before insert or update on tasks for each row execute function tasks_check_merge();

create function task_comments_keep_text() returns trigger language plpgsql as $$
begin
    if (new.id, new.owner_id, new.task_id, new.author, new.body, new.body_sha256, new.created_at)
       is distinct from
       (old.id, old.owner_id, old.task_id, old.author, old.body, old.body_sha256, old.created_at)
       or old.retracted_at is not null
    then
        raise exception 'a comment is retracted once and changed never' using errcode = 'restrict_violation',
            constraint = 'task_comments_text_kept';
    end if;
    return new;
end $$;
create trigger task_comments_text_kept before update on task_comments for each row execute function task_comments_keep_text();

do $$
declare
    owned text;
begin
    foreach owned in array array['tasks', 'task_tags', 'task_comments'] loop
        execute format('alter table %I enable row level security', owned);
        execute format('alter table %I force row level security', owned);
        execute format('create policy %I on %I using (owner_id = acting_owner())', owned || '_own', owned);
    end loop;
end $$;
create policy tasks_system on tasks for select to muster_system using (true);

grant select, insert on tasks, task_tags, task_comments to muster_app;
grant update (title, body, status, repository, model, updated_at, closed_at, merged_into) on tasks to muster_app;
grant delete on task_tags to muster_app;
grant update (retracted_at) on task_comments to muster_app;
grant select (id, owner_id, status, merged_into) on tasks to muster_system;
