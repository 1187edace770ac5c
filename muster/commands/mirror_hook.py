"""`muster mirror hook EVENT`: what Claude Code calls, so nothing is imported here that takes time.

It says nothing and ends well whatever happens: what it printed would be read as context by the
model, and another exit code would stop a prompt or a tool.
"""

import os
import sys
from typing import NoReturn

from muster.clients.mirror.hook_call import leave


def answer(event: str) -> NoReturn:
    """Leave the event whose JSON stands on stdin in the spool, and end the program."""
    try:
        leave(event, environ=os.environ, stdin=sys.stdin.fileno())
    finally:
        # Not even a fault of ours may reach the session; so nothing is raised from here.
        os._exit(0)
