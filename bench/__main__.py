"""`python -m bench [SCENARIO …]` measures; `python -m bench chaos` kills, and holds to account."""

import sys
from collections.abc import Sequence

from bench import command
from bench.chaos import command as chaos


def main(arguments: Sequence[str]) -> int:
    """Run the program that is asked for; its exit code."""
    if arguments[:1] == ["chaos"]:
        return chaos.main(arguments[1:])
    return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
