"""Benchmarks of muster against a real server on loopback; `python -m bench` runs them."""
