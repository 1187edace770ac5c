"""What is done with routes, and what binds mail to a session."""
