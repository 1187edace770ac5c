"""MCP doors, one for each kind of caller."""
