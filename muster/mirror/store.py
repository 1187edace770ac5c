"""SQL that verbs of mirrored sessions share: hosts online or remembered, texts that may not go.

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
# The first thing that stands against pasting the queued text `s` of the owner `u`, as a name of
# send_rules.Against; null when nothing does. A routed text has no sign-in, and needs none.
AGAINST: Final = """
    case when u.disabled_at is not null then 'disabled'
         when u.signed_out_at >= coalesce(s.signed_in_at, s.created_at) then 'signed_out'
         when s.route_id is not null and not exists (
             select from session_routes r
             where r.owner_id = s.owner_id and r.id = s.route_id and r.state = 'routed')
         then 'route_over'
         when s.signed_in_at < %(now)s - make_interval(secs => %(stepup_window_seconds)s)
         then 'stale' end
"""
SEND: Final = """
    s.id, s.owner_id, s.mirrored_id, s.text, s.queued_by, s.queued_via, s.signed_in_at, s.route_id,
    s.state, s.created_at, s.host_id, s.epoch, s.offers, s.offered_at, s.ended_at, s.why, s.ask_id
"""
