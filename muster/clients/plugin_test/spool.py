"""The upstream of the plugin under test, which is folders: what comes in, and what was sent."""

import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

import attrs

FILE_BYTES_MAX = 1024 * 1024
FILES_MAX = 10_000
_BEGINNING = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


@attrs.define(kw_only=True)
class Spool:
    """The folders of one row; a text is told by a mark in it that nothing else has."""

    folder: Path
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        """Make the folders."""
        for path in (self.inbox, self.outbox, self.state):
            path.mkdir(parents=True)
        for part in ("tmp", "new", "cur"):
            (self.maildir / part).mkdir(parents=True)

    @property
    def inbox(self) -> Path:
        """Where messages come in as text files."""
        return self.folder / "inbox"

    @property
    def maildir(self) -> Path:
        """Where the same messages come in as mails."""
        return self.folder / "maildir"

    @property
    def outbox(self) -> Path:
        """Where the plugin sends to."""
        return self.folder / "outbox"

    @property
    def state(self) -> Path:
        """What the plugin keeps."""
        return self.folder / "state"

    def places(self) -> dict[str, str]:
        """The folders by the names of their placeholders."""
        return {
            "inbox": str(self.inbox),
            "maildir": str(self.maildir),
            "outbox": str(self.outbox),
            "state": str(self.state),
        }

    def bring(self, text: str) -> None:
        """Let one message come in, whole at once."""
        self._count += 1
        name = f"{self._count:04d}.txt"
        _appear(self.inbox / f".{name}", self.inbox / name, text.encode())
        mail = EmailMessage()
        mail["From"] = "Somebody <somebody@example.test>"
        mail["To"] = "Plugin <plugin@example.test>"
        mail["Subject"] = f"Message {self._count}"
        mail["Message-ID"] = f"<{secrets.token_hex(8)}@example.test>"
        mail["Date"] = format_datetime(_BEGINNING + timedelta(minutes=self._count))
        mail.set_content(text)
        raw = mail.as_bytes()
        mail_name = f"{self._count:04d}.test"
        _appear(self.maildir / "tmp" / mail_name, self.maildir / "new" / mail_name, raw)

    def count(self, mark: str) -> int:
        """How often a text with `mark` was sent; blocks, as reading files does."""
        return sum(content.count(mark.encode()) for content in self._contents())

    def _contents(self) -> Iterator[bytes]:
        seen = 0
        for parent, folders, names in os.walk(self.outbox):
            folders[:] = [name for name in folders if name != "tmp" and not name.startswith(".")]
            for name in names:
                seen += 1
                if name.startswith(".") or seen > FILES_MAX:
                    continue
                try:
                    with (Path(parent) / name).open("rb") as file:
                        yield file.read(FILE_BYTES_MAX)
                except FileNotFoundError:
                    continue  # it was renamed while we looked


def _appear(writing: Path, ready: Path, content: bytes) -> None:
    writing.write_bytes(content)
    writing.rename(ready)
