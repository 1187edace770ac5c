"""The mail plugin: RFC 5322 files from a Maildir in, approved replies to an outbox Maildir."""
