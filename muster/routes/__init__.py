"""Messages that are handed to mirrored sessions, and how their answers come back."""
