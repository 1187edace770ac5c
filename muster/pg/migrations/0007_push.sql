-- Push: where an owner is told of what waits for them, and a row for each push.

-- The key by which push services know this muster. Servers on one database share it: a browser's
-- subscription is bound to it. It belongs to nobody, and there is one.
create table push_keys (
    id          integer primary key constraint push_keys_one_check check (id = 1),
    private_key bytea not null constraint push_keys_private_check check (octet_length(private_key) = 32),
    public_key  bytea not null constraint push_keys_public_check check (octet_length(public_key) = 65),
    created_at  timestamptz not null
);

-- url is a browser's endpoint, an ntfy server or a webhook; topic is ntfy's. secret is ntfy's token
-- or what a webhook is signed with; it is kept as it is, for muster has to use it.
create table push_devices (
    id              bigint generated always as identity primary key,
    owner_id        bigint not null references users (id),
    sink            text not null constraint push_devices_sink_check check (sink in ('browser', 'ntfy', 'webhook')),
    name            text not null constraint push_devices_name_check check (char_length(name) between 1 and 80),
    url             text not null constraint push_devices_url_check check (octet_length(url) between 1 and 1000),
    topic           text not null default '' constraint push_devices_topic_check check (topic ~ '^[A-Za-z0-9_-]{0,64}$'),
    p256dh          bytea constraint push_devices_p256dh_check check (octet_length(p256dh) = 65),
    auth            bytea constraint push_devices_auth_check check (octet_length(auth) = 16),
    secret          text constraint push_devices_secret_check check (octet_length(secret) between 1 and 400),
    kinds           text[] not null constraint push_devices_kinds_check check (kinds <@ array['draft', 'ask', 'task']),
    created_at      timestamptz not null,
    not_before      timestamptz not null,
    last_success_at timestamptz,
    last_error_at   timestamptz,
    last_error      text constraint push_devices_error_check check (char_length(last_error) <= 200),
    removed_at      timestamptz,
    unique (owner_id, id),
    constraint push_devices_subscription_check
        check ((sink = 'browser') = (p256dh is not null) and (sink = 'browser') = (auth is not null)),
    constraint push_devices_ntfy_check check ((sink = 'ntfy') = (topic <> '')),
    constraint push_devices_signed_check check (sink <> 'webhook' or secret is not null or removed_at is not null)
);
create unique index push_devices_live_key on push_devices (owner_id, sink, url, topic) where removed_at is null;

-- The hours of an owner, in minutes of their own day, in which nothing is pushed.
create table push_quiet_hours (
    owner_id     bigint primary key references users (id),
    from_minute  integer not null,
    until_minute integer not null,
    constraint push_quiet_hours_check
        check (from_minute between 0 and 1439 and until_minute between 0 and 1439 and from_minute <> until_minute)
);

-- One push to one device. item_id is a draft's, an ask's or a task's; a test has none.
create table push_deliveries (
    id           bigint generated always as identity primary key,
    owner_id     bigint not null,
    device_id    bigint not null,
    kind         text not null constraint push_deliveries_kind_check check (kind in ('draft', 'ask', 'task', 'test')),
    item_id      bigint,
    state        text not null constraint push_deliveries_state_check
                 check (state in ('waiting', 'sent', 'seen', 'dropped', 'failed', 'clearing', 'cleared')),
    created_at   timestamptz not null,
    due_at       timestamptz not null,
    attempts     integer not null,
    leased_until timestamptz,
    sent_at      timestamptz,
    ended_at     timestamptz,
    error        text constraint push_deliveries_error_check check (char_length(error) <= 200),
    foreign key (owner_id, device_id) references push_devices (owner_id, id),
    unique (owner_id, id),
    constraint push_deliveries_item_check check ((kind = 'test') = (item_id is null)),
    constraint push_deliveries_sent_check check (state <> 'sent' or sent_at is not null),
    constraint push_deliveries_ended_check
        check ((ended_at is not null) = (state in ('seen', 'dropped', 'failed', 'cleared')))
);
-- Whoever sees first that something waits writes its push; whoever comes second writes none.
create unique index push_deliveries_item_key on push_deliveries (device_id, kind, item_id) where kind <> 'test';
create unique index push_deliveries_test_key on push_deliveries (device_id) where kind = 'test' and state = 'waiting';
create index push_deliveries_due_idx on push_deliveries (owner_id, device_id, due_at) where state in ('waiting', 'clearing');
create index push_deliveries_open_idx on push_deliveries (owner_id, id) where state in ('waiting', 'sent');
create index push_deliveries_listing_idx on push_deliveries (device_id, id desc);
create index push_deliveries_ended_idx on push_deliveries (owner_id, ended_at) where ended_at is not null;
create index drafts_owner_pending_idx on drafts (owner_id, created_at) where state = 'pending';
create index tasks_news_idx on tasks (owner_id, created_at) where status = 'open' and merged_into is null;

-- What an owner is to be told of, for as long as it waits for them: the one place that says so.
create view push_items with (security_invoker = true) as
    select owner_id, 'draft'::text as kind, id as item_id, created_at, expires_at from drafts where state = 'pending'
    union all
    select owner_id, 'ask', id, created_at, expires_at from asks where state = 'open'
    union all
    select owner_id, 'task', id, created_at, created_at + interval '7 days' from tasks
    where status = 'open' and merged_into is null;

do $$
declare
    owned text;
begin
    foreach owned in array array['push_devices', 'push_quiet_hours', 'push_deliveries'] loop
        execute format('alter table %I enable row level security', owned);
        execute format('alter table %I force row level security', owned);
        execute format('create policy %I on %I using (owner_id = acting_owner())', owned || '_own', owned);
    end loop;
end $$;
create policy push_devices_system on push_devices for select to muster_system using (true);

grant select, insert on push_keys, push_devices, push_quiet_hours, push_deliveries to muster_app;
grant select on push_items to muster_app;
grant update (name, p256dh, auth, kinds, not_before, last_success_at, last_error_at, last_error, removed_at, url, secret)
    on push_devices to muster_app;
grant update (from_minute, until_minute) on push_quiet_hours to muster_app;
grant update (state, due_at, attempts, leased_until, sent_at, ended_at, error) on push_deliveries to muster_app;
grant delete on push_quiet_hours, push_deliveries to muster_app;

grant select (id, owner_id, removed_at) on push_devices to muster_system;
