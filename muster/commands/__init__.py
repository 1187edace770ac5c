"""The command line, one file a subcommand; the only place that wires things together."""
