"""Mirrored sessions: hosts and what their terminals show, focus, the send queue."""
