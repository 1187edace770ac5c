"""Routing: a message goes to a session, and its answer comes back (plugins: "Routing a message …")."""
