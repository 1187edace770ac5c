"""Asks: questions that agents, the chief and muster put before the owner."""
