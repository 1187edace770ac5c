"""Push: telling an owner, away from the pages, that something waits for them.

Nobody calls this room. It reads what waits (muster.push_items), writes one row for each push to
each device, and sends what is due; hints only make it look sooner (actor.py).
"""
