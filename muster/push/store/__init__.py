"""The SQL of pushes: the rows of pushes, and those of devices and hours."""
