-- How a person proves who they are: a password or passkeys, browser sessions, links for a first
-- sign-in, and the attempts that are counted. Personal tokens, which programs of a person's carry.

alter table users alter column password_hash drop not null;
alter table users add column time_zone text not null default 'UTC'
    constraint users_time_zone_check check (char_length(time_zone) between 1 and 64);
-- What an authenticator is told instead of the name; random, and never shown.
alter table users add column passkey_handle bytea not null default sha256(gen_random_uuid()::text::bytea)
    constraint users_passkey_handle_key unique;
-- Whatever was signed in or queued before this is refused ("sign out everywhere").
alter table users add column signed_out_at timestamptz;

create table passkeys (
    id            bigint generated always as identity primary key,
    owner_id      bigint not null references users (id),
    name          text not null constraint passkeys_name_check check (char_length(name) between 1 and 80),
    credential_id bytea not null constraint passkeys_credential_id_key unique
                  constraint passkeys_credential_id_check check (octet_length(credential_id) between 1 and 1023),
    public_key    bytea not null,
    sign_count    bigint not null constraint passkeys_sign_count_check check (sign_count >= 0),
    created_at    timestamptz not null,
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    unique (owner_id, id)
);
create index passkeys_owner_idx on passkeys (owner_id) where revoked_at is null;

-- signed_in_at is when the person last proved themselves in this session; a step-up moves it.
create table browser_sessions (
    id           bigint generated always as identity primary key,
    owner_id     bigint not null references users (id),
    sha256       bytea not null constraint browser_sessions_sha256_key unique
                 constraint browser_sessions_sha256_check check (octet_length(sha256) = 32),
    created_at   timestamptz not null,
    signed_in_at timestamptz not null,
    expires_at   timestamptz not null,
    last_seen_at timestamptz not null,
    method       text not null constraint browser_sessions_method_check check (method in ('password', 'passkey', 'link')),
    user_agent   text not null constraint browser_sessions_agent_check check (char_length(user_agent) <= 300),
    address      text not null constraint browser_sessions_address_check check (char_length(address) <= 64),
    revoked_at   timestamptz,
    unique (owner_id, id)
);
create index browser_sessions_owner_idx on browser_sessions (owner_id) where revoked_at is null;

-- A one-time address. Without an owner it is for the first account of a new server.
-- used_at is when somebody took an account or a way to sign in by it.
create table setup_links (
    id         bigint generated always as identity primary key,
    owner_id   bigint references users (id),
    sha256     bytea not null constraint setup_links_sha256_key unique
               constraint setup_links_sha256_check check (octet_length(sha256) = 32),
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at    timestamptz
);
create index setup_links_owner_idx on setup_links (owner_id);

-- What a passkey is asked to sign: the challenge is made of a random cookie, of which the digest
-- stands here; whoever takes the row away has used the challenge. Without an owner it is a guest's.
create table passkey_challenges (
    id         bigint generated always as identity primary key,
    owner_id   bigint references users (id),
    sha256     bytea not null constraint passkey_challenges_sha256_key unique
               constraint passkey_challenges_sha256_check check (octet_length(sha256) = 32),
    address    text not null constraint passkey_challenges_address_check check (char_length(address) <= 64),
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index passkey_challenges_address_idx on passkey_challenges (address, expires_at);
create index passkey_challenges_owner_idx on passkey_challenges (owner_id);
create index passkey_challenges_expiry_idx on passkey_challenges (expires_at);

-- One row for each attempt to sign in; `account` is a digest of the name, which may be nobody's.
create table sign_in_attempts (
    id      bigint generated always as identity primary key,
    at      timestamptz not null,
    account bytea not null constraint sign_in_attempts_account_check check (octet_length(account) = 32),
    address text not null constraint sign_in_attempts_address_check check (char_length(address) <= 64),
    failed  boolean not null
);
create index sign_in_attempts_account_idx on sign_in_attempts (account, at);
create index sign_in_attempts_address_idx on sign_in_attempts (address, at);
create index sign_in_attempts_at_idx on sign_in_attempts (at);

-- The holder of a credential of kind mst_.
create table personal_tokens (
    id         bigint generated always as identity primary key,
    owner_id   bigint not null references users (id),
    name       text not null constraint personal_tokens_name_check check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    scope      text not null constraint personal_tokens_scope_check check (scope in ('read', 'write')),
    created_at timestamptz not null,
    expires_at timestamptz constraint personal_tokens_expiry_check check (expires_at > created_at),
    revoked_at timestamptz,
    unique (owner_id, id)
);
create unique index personal_tokens_live_name_key on personal_tokens (owner_id, name) where revoked_at is null;

do $$
declare
    owned text;
begin
    foreach owned in array array['passkeys', 'browser_sessions', 'personal_tokens'] loop
        execute format('alter table %I enable row level security', owned);
        execute format('alter table %I force row level security', owned);
        execute format('create policy %I on %I using (owner_id = acting_owner())', owned || '_own', owned);
        execute format('create policy %I on %I for select to muster_system using (true)', owned || '_system', owned);
    end loop;
end $$;
-- A link or a challenge may be nobody's yet: those are seen by whoever acts for no owner.
do $$
declare
    owned text;
begin
    foreach owned in array array['setup_links', 'passkey_challenges'] loop
        execute format('alter table %I enable row level security', owned);
        execute format('alter table %I force row level security', owned);
        execute format('create policy %I on %I using (owner_id is not distinct from acting_owner())', owned || '_own', owned);
        execute format('create policy %I on %I for select to muster_system using (true)', owned || '_system', owned);
    end loop;
end $$;
-- Whoever opens an account ends the links for a first one, and sees no more of them than that takes.
create policy setup_links_nobodys on setup_links using (owner_id is null) with check (owner_id is null);

grant select, insert on passkeys, browser_sessions, setup_links, passkey_challenges, sign_in_attempts, personal_tokens
    to muster_app;
grant update (time_zone, signed_out_at) on users to muster_app;
grant update (name, sign_count, last_used_at, revoked_at) on passkeys to muster_app;
grant update (signed_in_at, last_seen_at, expires_at, revoked_at) on browser_sessions to muster_app;
grant update (used_at) on setup_links to muster_app;
grant update (revoked_at) on personal_tokens to muster_app;
grant update (failed) on sign_in_attempts to muster_app;
grant delete on sign_in_attempts, browser_sessions, setup_links, passkey_challenges to muster_app;

grant select (time_zone, signed_out_at) on users to muster_system;
grant select (id, owner_id, credential_id, revoked_at) on passkeys to muster_system;
grant select (id, owner_id, sha256, signed_in_at, expires_at, last_seen_at, revoked_at) on browser_sessions to muster_system;
grant select (id, owner_id, sha256, expires_at, used_at) on setup_links to muster_system;
grant select (id, owner_id, name, scope, expires_at, revoked_at) on personal_tokens to muster_system;
grant select (id, owner_id, sha256, expires_at) on passkey_challenges to muster_system;
