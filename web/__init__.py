"""The wire: the accept loop, the doors and what each of them answers."""
