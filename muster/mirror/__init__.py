"""Mirrored sessions: hosts and their terminals, focus, and texts that wait for a session to fall idle."""
