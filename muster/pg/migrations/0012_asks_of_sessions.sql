-- What a mirrored session asks of the chief. The question is said in the turn; the chief's answer is what it says there.
-- Its id is taken from the ids of asks, so that one of either kind is never answered in the place of the other.

alter table turns add unique (owner_id, id);
create table session_asks (
    id          bigint not null default nextval('asks_id_seq') primary key,
    owner_id    bigint not null,
    mirrored_id bigint not null,
    agent_id    bigint not null,
    route_id    bigint,
    turn_id     bigint not null constraint session_asks_turn_key unique,
    question    text not null constraint session_asks_question_check check (char_length(question) between 1 and 2000),
    created_at  timestamptz not null,
    foreign key (owner_id, mirrored_id) references mirrored (owner_id, id),
    foreign key (owner_id, agent_id) references agents (owner_id, id),
    foreign key (owner_id, route_id) references session_routes (owner_id, id),
    foreign key (owner_id, turn_id) references turns (owner_id, id),
    unique (owner_id, id)
);
create index session_asks_session_idx on session_asks (mirrored_id, id desc);

alter table session_asks enable row level security;
alter table session_asks force row level security;
create policy session_asks_own on session_asks using (owner_id = acting_owner());
grant select, insert on session_asks to muster_app;
grant usage on sequence asks_id_seq to muster_app;
