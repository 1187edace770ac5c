"""Small files that processes share: each is whole from the moment its name is there."""

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a secret, 0600 and whole: whoever reads the name sees all of it or nothing."""
    _write_aside(path, text).rename(path)


def keep_first(path: Path, text: str) -> str:
    """Write a file as `write_private` does unless it is there; the text of whoever was first.

    Processes that begin together on one folder all get the same.
    """
    if not path.exists():
        fresh = _write_aside(path, text)
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass  # somebody else was first
        finally:
            fresh.unlink()
    return path.read_text(encoding="utf-8").strip()


def _write_aside(path: Path, text: str) -> Path:
    fresh = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)
    return fresh
