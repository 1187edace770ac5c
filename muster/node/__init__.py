"""One running server: the supervision tree, fan-out of hints, sweeps and drain."""
