"""Tasks: what somebody has to do, with its tags, gates, comments and merges."""
