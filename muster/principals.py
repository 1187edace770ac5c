"""Who acts: a transaction is opened as one of these, and the audit log names it.

All but System belong to one owner, and row-level security shows them that owner's rows alone.
System looks across owners (the due lists, the knock at a door, the list of accounts): it sees ids,
names, addresses of accounts, states, due times and token hashes, no word of a message or a draft,
and writes nothing.
"""

from typing import ClassVar

import attrs


@attrs.frozen(kw_only=True)
class Owner:
    """The person, through a door of theirs: `via` is `cli`, `browser`, `token NAME` or `hook`."""

    owner_id: int
    via: str

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return "owner"


@attrs.frozen(kw_only=True)
class Plugin:
    """A plugin daemon, proven by its `mpl_` token."""

    owner_id: int
    plugin_id: int
    name: str
    credential_id: int
    via: ClassVar[str] = "plugin"

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return f"plugin:{self.name}"


@attrs.frozen(kw_only=True)
class Agent:
    """An agent, proven by its `mag_` token."""

    owner_id: int
    agent_id: int
    name: str
    credential_id: int
    via: ClassVar[str] = "agent"

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return f"agent:{self.name}"


@attrs.frozen(kw_only=True)
class MirrorHost:
    """A machine of the owner's that mirrors its terminals, proven by its `mmh_` token."""

    owner_id: int
    host_id: int
    name: str
    credential_id: int
    via: ClassVar[str] = "mirror-host"

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return f"host:{self.name}"


@attrs.frozen(kw_only=True)
class Muster:
    """muster itself on behalf of one owner: deliveries, lapses, expiries."""

    owner_id: int
    via: ClassVar[str] = "muster"

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return "muster"


@attrs.frozen(kw_only=True)
class System:
    """muster across owners, as the database role `muster_system`."""

    via: ClassVar[str] = "muster"

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return "muster"


@attrs.frozen(kw_only=True)
class Node:
    """A server, for the rows that belong to no owner: its supervision log, its own heartbeat.

    It has the role of the application and no owner, so row-level security shows it no owner's row.
    """

    via: ClassVar[str] = "muster"

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return "muster"


Acting = Owner | Plugin | Agent | MirrorHost | Muster
Principal = Acting | System | Node
