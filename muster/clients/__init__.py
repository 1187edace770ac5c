"""Programs on the other side of the wire; they import nothing of the server."""
