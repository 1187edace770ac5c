"""The tests of muster; `python -m tests` runs all of them, with the linters, as one command."""
