"""Small files that hold a secret."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a secret, 0600 and whole: whoever reads the name sees all of it or nothing."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)
    fresh.rename(path)
