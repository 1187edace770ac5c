"""The ground floor: the one door to PostgreSQL."""
