"""The host program: tmux windows with Claude Code, shown to muster and typed into on its word.

    tmux         every call to the real tmux program       windows  what is there, as muster sees it
    paste        one text into one pane, at most once      journal   what was pasted, across kill -9
    socket       one WebSocket, its frames and their acks  host      the whole, and coming back
    hooks        what Claude Code's hooks said (a spool)   mcp       a session's own way to muster
    transcripts  titles, folders, proof of a paste         resume    an ended session begins anew
    model        the records and Protocols where these meet

Semantics, in one page.

**Whose word counts.** tmux says which panes there are; Claude Code's own hooks say which session a
pane shows and what that session does (`Sessions`). A pane is named by `Place`: tmux's number of it
*and* the process id of the tmux server, since a restarted tmux counts from %0 again. Hooks know
both, by TMUX and TMUX_PANE. A pane of which no hook spoke has no session and its state is unknown.

**Idle** is a pane whose session's hook said so, and whose screen held still since: both, always. A
permission prompt is `waiting`. `idle_since` is the later of the two beginnings. A screen that
changes without a hook (somebody types) begins it anew.

**A paste happens at most once.** The server's `send_id` is written to the journal before the first
byte reaches the terminal; an id that is in the journal is answered from it. The order is: lock of
the pane; text into a tmux buffer; journal `begun`; the last look (same session, idle, screen as it
was); paste; a gap; Enter; proof. What failed up to the last look is `not_begun`, which the journal
notes too. From the paste on there are two ends: `pasted`, when the session's own UserPromptSubmit
hook or transcript shows the text, and `unconfirmed`. A host that died in between asks the
transcript after its restart, and answers one of the two. Never Escape, never Ctrl-C: what is half
done is left as it is and told.

**Nothing that muster has not acknowledged is forgotten** while this program lives: `hello`, the
newest list of windows (older ones are superseded), focus titles (the newest 200) and results of
resumes are sent again on the next connection; ends of pastes come from the journal, also after a
restart.

**It comes back for ever**, after 1 to 30 s with full jitter, from every loss but three: the token
is bad (exit 5), this host may not (exit 4), another program took over this host's place (exit 7).

All times are aware datetimes in UTC by this machine's clock; durations are seconds. Nothing here
imports the server.
"""
