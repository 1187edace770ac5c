"""What a push says, where it may go, when it must wait, and what becomes of it."""
