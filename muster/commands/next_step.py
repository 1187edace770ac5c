"""What a person may type next: a whole command, which works in their shell as it is printed."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def to_type(*arguments: str, settings: Mapping[str, str] | None = None) -> str:
    """A muster command as this muster was called, quoted for a shell.

    MUSTER_DATA_DIR stands in front when it is set here, for it decides which muster is spoken to;
    no other setting does, since some are secrets. `settings` replace what is set here.
    """
    named = os.environ if settings is None else settings
    folder = named.get("MUSTER_DATA_DIR", "")
    # The line may be typed in another folder. A tilde is read by muster, quoted or not.
    whole = folder if folder.startswith("~") else str(Path(folder).absolute())
    front = [f"MUSTER_DATA_DIR={shlex.quote(whole)}"] if folder else []
    return " ".join([*front, *map(shlex.quote, (*_program(), *arguments))])


def _program() -> tuple[str, ...]:
    called = Path(sys.argv[0])
    if called.stem != "muster" or not called.is_file():
        return sys.executable, "-m", "muster"
    found = shutil.which("muster")
    if found is not None and Path(found).samefile(called):
        return ("muster",)
    return (str(called.absolute()),)
