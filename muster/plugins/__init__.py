"""Registrations of plugins, their scopes and allowances."""
