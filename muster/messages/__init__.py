"""Inbound messages and the machine of their delivery states."""
