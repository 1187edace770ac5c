-- How a message's turn ended, and what it took, is told by its audit row; a message has one such row at most.
create index audit_settled_idx on audit (owner_id, subject) where action = 'plugin.delivered';
