"""Which repository a folder belongs to, read from its files: no `git` is run for each folder.

`owner/name` of the remote `origin`, else the name of the folder that holds `.git`, else nothing.
"""

import configparser
import re
from collections.abc import Callable
from pathlib import Path

CHARACTERS_MAX = 200
CONFIG_BYTES_MAX = 1 << 20
KEPT_COUNT_MAX = 2000
FOLDERS_UP_MAX = 64

_REMOTE = re.compile(r"[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/*$")


class Repositories:
    """Answers from memory for `fresh_seconds`: a folder may become a repository, though rarely."""

    def __init__(self, now: Callable[[], float], *, fresh_seconds: float = 60.0) -> None:
        self._now = now
        self._fresh_seconds = fresh_seconds
        self._known: dict[str, tuple[float, str | None]] = {}

    def of(self, folder: str) -> str | None:
        """The repository of this absolute path; None when there is none that can be read."""
        now = self._now()
        at, name = self._known.get(folder, (float("-inf"), None))
        if now - at < self._fresh_seconds:
            return name
        if len(self._known) >= KEPT_COUNT_MAX:
            self._known.clear()
        name = find_repository(folder)
        self._known[folder] = now, name
        return name


def find_repository(folder: str) -> str | None:
    """The repository of this absolute path, looked up in the files above it."""
    try:
        here = Path(folder)
        for at in (here, *here.parents)[:FOLDERS_UP_MAX]:
            if (at / ".git").exists():
                return (_origin(at / ".git") or at.name)[:CHARACTERS_MAX] or None
    except (OSError, ValueError):
        return None
    return None


def _origin(git: Path) -> str | None:
    if git.is_file():
        # A worktree's or a submodule's: it names its own folder, which names the common one.
        told = git.read_text(errors="replace")[:4096].removeprefix("gitdir:").strip()
        git = git.parent / told
        common = git / "commondir"
        if common.is_file():
            git = git / common.read_text(errors="replace")[:4096].strip()
    file = git / "config"
    if not file.is_file() or file.stat().st_size > CONFIG_BYTES_MAX:
        return None
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(file.read_text(errors="replace"))
        url = parser.get('remote "origin"', "url", fallback=None)
    except configparser.Error:
        return None
    found = _REMOTE.search(url or "")
    return None if found is None else f"{found.group(1)}/{found.group(2)}"
