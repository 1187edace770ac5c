"""The demo: the whole loop on a few mails that ship with muster, for somebody who has five minutes.

It does nothing that a person could not do: it runs `muster` commands as child processes, the
server, the agent and the mail plugin among them, and imports none of them. `children` keeps the
processes, `leash` ends those of a demo that was killed, `stage` sets the scene, `program` plays it,
`report` says what became of each mail.
"""
