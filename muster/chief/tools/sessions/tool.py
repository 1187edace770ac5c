"""What a tool of a mirrored session is, and a call of one."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

import attrs
import msgspec

from muster.chief.operations.routing.answering import RelaySettings
from muster.pg.database import Database
from muster.principals import Owner

Change = Callable[[], Awaitable[bool]]
"""Sleeps until something of the owner's changed; False when nobody waits for it any more."""


@attrs.frozen(kw_only=True)
class Session:
    """The session that calls: the one that the caller's pane shows, on the token's host."""

    owner_id: int
    host: str
    mirrored_id: int
    claude_session: str

    @property
    def via(self) -> str:
        """Where its acts were done, as audit rows have it."""
        return f"mcp from {self.host}/{self.claude_session}"

    @property
    def owner(self) -> Owner:
        """Its owner, at this door."""
        return Owner(owner_id=self.owner_id, via=self.via)

    @property
    def host_owner(self) -> Owner:
        """Its owner, as the audit log has whoever routes from a session."""
        return Owner(owner_id=self.owner_id, via="mirror-host")


@attrs.frozen(kw_only=True)
class SessionCall:
    """A call: decoded arguments, who calls, what relays need, and what a tool that waits needs.

    `changes` hears of changes for a block, and raises Refused (`too_many_waits`). `prove` raises
    Unauthorized once the token, or its owner, is good for nothing any more.
    """

    db: Database
    session: Session
    arguments: msgspec.Struct
    relays: RelaySettings
    changes: Callable[[], AbstractContextManager[Change]]
    prove: Callable[[], Awaitable[object]]


@attrs.frozen(kw_only=True)
class SessionTool:
    """A tool as it is offered; `run` answers with the members of its result."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[SessionCall], Awaitable[Mapping[str, object]]]
    of_plugins: bool = True
    of_routing: bool = False
