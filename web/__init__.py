"""The HTTP and WebSocket side of muster: the wire floor, the doors and the pages."""
