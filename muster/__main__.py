"""The program's beginning. What Claude Code calls at each of its steps goes past the command line.

`muster mirror hook EVENT` holds up the session that it tells of until it ends, so it takes a path
of its own: without it, more than half of its time would go into loading the command line.
"""

import sys
from collections.abc import Sequence

HOOK = ["mirror", "hook"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with what `muster.commands.exits` says of its end."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:2] == HOOK and len(given) == 3 and not given[2].startswith("-"):
        from muster.commands.mirror_hook import answer  # noqa: PLC0415 - the quick way

        answer(given[2])
    from muster.commands.line import run  # noqa: PLC0415 - and the ordinary one

    sys.exit(run(given))


if __name__ == "__main__":
    main()
