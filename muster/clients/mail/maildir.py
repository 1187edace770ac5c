"""Maildirs: reading an inbox in a stable order, and delivering to an outbox exactly once.

Of an inbox only `new` and `cur` are read; what lies in `tmp` is still being written. Nothing in
it is moved or changed: it belongs to the mail program. An outbox delivery is written to `tmp`,
synced, and linked into `new` under a name that comes from the draft: the link fails when the name
is there already, so one draft can't lie there twice, and its being there proves the sending.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs

READ_BYTES_MAX = 32 * 1024 * 1024
"""How much of one mail is parsed; a longer one says so in its body."""

CHUNK_BYTES = 1024 * 1024
NO_LINKS_HERE = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@attrs.frozen(kw_only=True)
class MailFile:
    """A file of an inbox. `key` names the mail: flags and the folder may change, it does not."""

    key: str
    path: Path
    size_bytes: int
    changed_ns: int


@attrs.frozen(kw_only=True)
class RawMail:
    """What was read of a file: at most 32 MiB, and the sha256 in hex of all of it."""

    beginning: bytes
    size_bytes: int
    sha256: str

    @property
    def is_whole(self) -> bool:
        """Whether `beginning` is all there is."""
        return len(self.beginning) == self.size_bytes


def list_mail(maildir: Path) -> Iterator[MailFile]:
    """The mails of `new` and `cur`, by name; NotADirectoryError when it is no Maildir.

    A file that vanishes meanwhile is skipped, and so is everything that is no plain file.
    """
    found: dict[str, os.DirEntry[str]] = {}
    for folder in ("cur", "new"):
        try:
            with os.scandir(maildir / folder) as entries:
                # The flags after the colon change when a mail is read.
                found.update((entry.name.partition(":2,")[0], entry) for entry in entries)
        except FileNotFoundError as error:
            raise NotADirectoryError(f"{maildir} is no Maildir: it has no {folder}") from error
    for key, entry in sorted(found.items()):
        if key.startswith("."):
            continue
        name = os.fsencode(key).decode("utf-8", "backslashreplace")
        path = Path(entry.path)
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        except OSError:
            # Listed all the same: the reading will say what is wrong with it.
            yield MailFile(key=name, path=path, size_bytes=0, changed_ns=0)
            continue
        if stat.S_ISREG(status.st_mode):
            size_bytes, changed_ns = status.st_size, status.st_mtime_ns
            yield MailFile(key=name, path=path, size_bytes=size_bytes, changed_ns=changed_ns)


def read_mail(path: Path) -> RawMail | None:
    """One mail file; None when it is gone. OSError when it can't be read."""
    digest = hashlib.sha256()
    beginning = bytearray()
    size_bytes = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size_bytes += len(chunk)
                beginning += chunk[: READ_BYTES_MAX - len(beginning)]
    except FileNotFoundError:
        return None
    return RawMail(beginning=bytes(beginning), size_bytes=size_bytes, sha256=digest.hexdigest())


def make_outbox(outbox: Path, *, maildir: Path | None) -> None:
    """Make the three folders of an outbox that are missing; ValueError when it is the inbox."""
    if maildir is not None and outbox.resolve() == maildir.resolve():
        # Each reply would be read as new mail, and be answered.
        raise ValueError(f"the outbox must be another folder than the Maildir: {outbox}")
    for folder in ("tmp", "new", "cur"):
        (outbox / folder).mkdir(mode=0o700, parents=True, exist_ok=True)


def find_delivered(outbox: Path, name: str) -> Path | None:
    """The mail of this name in `new` or `cur`, with or without flags; None when it is not there."""
    for folder in ("new", "cur"):
        with os.scandir(outbox / folder) as entries:
            for entry in entries:
                if entry.name.partition(":2,")[0] == name:
                    return Path(entry.path)
    return None


def deliver(outbox: Path, name: str, content: bytes) -> None:
    """Put one mail into the outbox, durably, under `name`; FileExistsError when it is there.

    An OSError may come after the mail is in `new` too, from syncing the folder: look with
    `find_delivered` before calling it unsent.
    """
    if find_delivered(outbox, name) is not None:
        raise FileExistsError(f"{name} is in the outbox already")
    writing = outbox / "tmp" / name
    ready = outbox / "new" / name
    # One process holds the state folder, so what lies here under our name is our own leftover.
    with writing.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(writing, ready)
    except OSError as error:
        if error.errno not in NO_LINKS_HERE:
            raise
        # Some file systems have no hard links; a rename is as atomic, and the name was free.
        writing.rename(ready)
    else:
        writing.unlink()
    _sync_folder(outbox / "new")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
