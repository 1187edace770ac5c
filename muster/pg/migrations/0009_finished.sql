-- What is read again and again: only what may still change.

-- finished_at is when the sweep saw that nothing brings a delivered message back before the owner any more: a reply was
-- sent, a task cites it, or it was asked about, once and for all. It is read no more then.
alter table messages add column finished_at timestamptz;
grant update (finished_at) on messages to muster_app;
grant select (finished_at) on messages to muster_system;

drop index messages_awaiting_idx;
create index messages_awaiting_idx on messages (plugin_id, settled_at, id)
    where state = 'delivered' and dispositioned_at is null and not no_reply and finished_at is null;
create index messages_unconfirmed_idx on messages (owner_id, id desc) where state = 'unconfirmed';
