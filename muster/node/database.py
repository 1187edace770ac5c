"""The children of the tree that speak to PostgreSQL itself.

Each ends when it is gone, and its supervisor starts it again, patiently.
"""

from collections.abc import Callable, Sequence

from actors import Actor
from muster.outcomes import Hint
from muster.pg.embedded import Embedded, watch
from muster.pg.listener import listen


class Postgres(Actor):
    """Keeps the embedded cluster running: brings it back when its postmaster dies."""

    def __init__(self, cluster: Embedded) -> None:
        super().__init__()
        self._cluster = cluster

    async def started(self) -> None:
        """Start the cluster, unless it runs, and watch it."""
        await self._cluster.ensure_running()
        self.nursery.start_soon(watch, self._cluster)


class Listening(Actor):
    """Hears the hints of other processes, command lines among them."""

    def __init__(
        self,
        app_url: str,
        handle: Callable[[Sequence[Hint]], None],
        resync: Callable[[], None],
    ) -> None:
        super().__init__()
        self._app_url = app_url
        self._handle = handle
        self._resync = resync

    async def started(self) -> None:
        """Listen; each start lets everyone read anew."""
        self.nursery.start_soon(listen, self._app_url, self._handle, self._resync)
