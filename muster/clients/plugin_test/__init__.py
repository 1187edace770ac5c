"""A fake muster that misbehaves on purpose, to see whether a plugin keeps the contract.

Theory of operation. Each row of the table is one duty of a plugin (plugins: "The plugin author's
contract"). It gets a fake muster on a free port of 127.0.0.1, empty folders, and the plugin as a
process; it brings a message in or approves a reply, lets one thing go wrong, and looks at what
came over the wire and what lies in the outbox. Rows share nothing, so a few run side by side, and
the plugin may be written in any language.

The plugin and its upstream meet the test by folders. They stand in COMMAND as placeholders and in
the environment of the process:

    {inbox}   PLUGIN_INBOX    each message that comes in is a text file here
    {maildir} PLUGIN_MAILDIR  the same messages as mails of a Maildir
    {outbox}  PLUGIN_OUTBOX   what the plugin sends goes here, in any form that has its text in it
    {state}   PLUGIN_STATE    the plugin's own folder; it outlives a kill, as a disk does

The outbox is the upstream that counts: a text that lies in it twice was sent twice. A file whose
name begins with a dot, or in a folder named `tmp`, is not sent yet. MUSTER_URL and
MUSTER_PLUGIN_TOKEN say where the fake muster is.

What is waited for has a deadline, so that a row ends. That something does *not* happen (a second
sending after a kill) is looked at once the plugin has sent another reply after its restart, which
shows that it is done with the first.

Rejected: a clock of our own for the plugin, since a program of any language has its own; so no row
waits out the two minutes of a lease.
"""
