"""A thread of agent mail that a session started (plugins: "A reply on a thread a session started").

A hook on the session's machine reports a send that began a thread. The first report binds it, for
good; a later reply on the thread is then that session's. Only the plugin named agent-mail brings
such replies: a thread of another plugin is nobody's.
"""

import re
from typing import Final

import attrs

from muster.errors import Invalid
from muster.messages.posts import check_identifier

AGENT_MAIL: Final = "agent-mail"  # the one plugin whose messages muster routes by itself

_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@attrs.frozen(kw_only=True)
class BindThread:
    """A session's send started this thread. Leaves `plugin_thread.bound`, once."""

    thread: str
    claude_session: str


@attrs.frozen(kw_only=True)
class BoundThread:
    """Whose a thread is."""

    mirrored_id: int
    claude_session: str


def check_bind(command: BindThread) -> None:
    """Raise Invalid unless it names a thread (1 to 200 bytes, no spaces) and a session's id."""
    check_identifier("thread", command.thread)
    check_session(command.claude_session)


def check_session(claude_session: str) -> None:
    """Raise Invalid unless this is the id of a Claude Code session."""
    if _SESSION.fullmatch(claude_session) is None:
        raise Invalid(
            "claude_session must be the id of a Claude Code session.", field="claude_session"
        )


def via_thread(thread: str, claude_session: str) -> str:
    """How a route was chosen, for its audit row."""
    return f"thread {thread} started by {claude_session}"
