"""The agent runner: connects an agent's backend to muster's gateway, one turn at a time.

It is a program of its own on the other side of the wire and imports nothing of the server. A
message from outside is read by a backend here, so what it could be talked into must be small:
a backend sees one turn and muster's tools, no `MUSTER_*` variable, no shell.

`gateway` holds the socket (design: "Two sockets of our own"), `frames` what goes over it, `mcp`
the tools over `/mcp`, `backend` the interface, `script` the backend that needs no model: rules in
a file. `tool_loop` is the backend that asks a model, `openai_chat` and `anthropic_messages` are the
models, `conversations` is what it remembers. `claude_code` is the backend that starts Claude Code
as a child (`child_program`), reads its events (`claude_stream`) and remembers its sessions.
"""
