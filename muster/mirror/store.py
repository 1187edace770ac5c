"""SQL that verbs of mirrored sessions share: which host is online, which is remembered.

A killed server leaves its name in the host's row; it counts for NODE_SILENT after its last
heartbeat. A host that is offline is remembered with its windows until it lists anew, for a day.
"""

from typing import Final

ONLINE: Final = """
    (h.retired_at is null and h.node is not null and exists (
        select from nodes n where n.id = h.node and n.seen_at > %(now)s - interval '20 seconds'))
"""
REMEMBERED: Final = f"""
    (h.retired_at is null
     and ({ONLINE} or coalesce(h.left_at, h.connected_at) > %(now)s - interval '24 hours'))
"""
