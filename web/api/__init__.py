"""`/api/*`: what a person's own programs do, with a personal token or the shared hook token."""
