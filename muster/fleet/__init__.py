"""What sessions worked on in a window of time, for the chief and for a team's console."""
