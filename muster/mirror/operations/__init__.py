"""The verbs of mirrored sessions, one file each kind of thing."""
