"""Whether the owner decides by command line here."""

import os

from muster.errors import Refused


def require_decisions() -> None:
    """Raise Refused while decisions by command line are switched off."""
    from muster.config import Config

    if not Config.from_environ(os.environ).cli_decisions:
        raise Refused(
            "Decisions by command line are switched off here (MUSTER_CLI_DECISIONS=0).",
            code="cli_decisions_off",
        )
