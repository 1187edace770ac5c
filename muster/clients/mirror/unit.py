"""The systemd unit of `muster mirror`, for the user whose sessions it mirrors."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

NAME: Final = "muster-mirror.service"

HARDENING: Final = """\
# It only talks to tmux, to its own files and to muster.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
UMask=0077
"""
RESUMES: Final = """\
# Without the locks of a program that starts nothing: to resume a session it may have to start
# tmux, and whatever is typed there ever after would be under them too (no sudo, for one).
"""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@:,./=+-]+")


def unit_text(command: Sequence[str], *, starts_sessions: bool) -> str:
    """The unit that runs `command`; with the locks that go with a program that starts nothing."""
    template = Path(__file__).with_name(NAME).read_text(encoding="utf-8")
    hardening = RESUMES if starts_sessions else HARDENING
    return template.replace("@HARDENING@\n", f"{hardening}\n").replace(
        "@COMMAND@", " ".join(map(_word, command))
    )


def unit_path(environ: Mapping[str, str]) -> Path:
    """Where systemd looks for the units of this user."""
    home = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "systemd" / "user" / NAME


def _word(word: str) -> str:
    """A word of a command as systemd reads it; ValueError for what no line of a unit can hold."""
    if any(ord(character) < 32 for character in word):
        raise ValueError("a unit can't hold control characters")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return word if _PLAIN.fullmatch(word) else f'"{escaped}"'
