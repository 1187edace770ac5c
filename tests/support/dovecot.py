"""A real IMAP server for tests: Debian's dovecot as a child, with its own config and folders.

It listens on loopback alone, with and without TLS, and keeps its ports over its lives. Any user
logs in with PASSWORD; each has a Maildir of their own. Mail gets into a folder by `append`, which
is IMAP and so gives it a UID at once and an INTERNALDATE of the test's choice.
"""

import os
import pwd
import shutil
import signal
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import attrs
import imapclient
import pytest
import trio

from tests.support.certificate import make_certificate
from tests.support.chaos import free_port
from tests.support.waiting import until

DOVECOT = Path("/usr/sbin/dovecot")
PASSWORD = "öffne-dich"
START_SECONDS = 20.0
CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{certificate}
ssl_key = <{key}
disable_plaintext_auth = no
default_internal_user = dovecot
default_login_user = dovenull
first_valid_uid = 1
mail_uid = {mail_user}
mail_gid = {mail_group}
mail_location = maildir:{folder}/mail/%u
mail_max_userip_connections = 50
mailbox_list_index = no
auth_failure_delay = 0
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={mail_user} gid={mail_group} home={folder}/people/%u
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  client_limit = 500
  # Without it nobody is made to wait after a wrong password.
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  client_limit = 500
}}
"""
MAIL_USER = "nobody"


@attrs.define(kw_only=True)
class Dovecot:
    """One dovecot over its lives."""

    folder: Path
    port: int
    tls_port: int
    process: trio.Process | None = None

    async def start(self) -> None:
        """Begin a life, and wait until it answers."""
        assert self.process is None, "it runs"
        self.process = await trio.lowlevel.open_process(
            [DOVECOT, "-F", "-c", str(self.folder / "dovecot.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await until(self._greets, START_SECONDS)

    async def kill(self) -> None:
        """End it with all its workers, as a power cut would; no error if it does not run."""
        process, self.process = self.process, None
        if process is None:
            return
        children = _descendants(process.pid)
        process.kill()
        for pid in children:
            # Found as a descendant of our own child a moment ago, so it is ours.
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        with trio.CancelScope(shield=True):
            await process.wait()

    async def _greets(self) -> bool:
        assert self.process is not None, "it was started"
        assert self.process.poll() is None, self.log()
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                return b"OK" in await stream.receive_some(1000)
        except OSError:
            return False

    def log(self) -> str:
        """What it logged."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else "no log"

    def tls(self) -> ssl.SSLContext:
        """A context that trusts its certificate alone."""
        return make_certificate().client_context()

    def client(self, user: str) -> imapclient.IMAPClient:
        """Another mail program of this user, logged in; blocking, and the test's to close."""
        client = imapclient.IMAPClient("127.0.0.1", port=self.port, ssl=False, timeout=20)
        client.plain_login(user, PASSWORD)
        return client

    def append(
        self, user: str, *mails: bytes, folder: str = "INBOX", at: datetime | None = None
    ) -> None:
        """Put mails into a folder; `at` is their INTERNALDATE, now when it is None."""
        with self.client(user) as client:
            for mail in mails:
                client.append(folder, mail, msg_time=at)

    def flags(self, user: str, folder: str = "INBOX") -> dict[int, tuple[bytes, ...]]:
        """The flags of each UID in a folder, but for the one that says it is recent."""
        with self.client(user) as client:
            client.select_folder(folder, readonly=True)
            found = client.get_flags(client.search())
        return {uid: tuple(f for f in flags if f != rb"\Recent") for uid, flags in found.items()}


def skip_without_dovecot() -> None:
    """Skip the test where dovecot can't be run."""
    if not DOVECOT.exists():
        pytest.skip("dovecot is not installed (Debian: dovecot-imapd)")
    if os.geteuid() != 0:
        pytest.skip("dovecot is started as root here, which this is not")


@asynccontextmanager
async def running_dovecot() -> AsyncIterator[Dovecot]:
    """Run a dovecot until the block ends; the test is skipped where there can be none."""
    skip_without_dovecot()
    # Not in the test's own folder: a socket's path has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
    try:
        server = _prepare(folder)
        await server.start()
        try:
            yield server
        finally:
            await server.kill()
    finally:
        shutil.rmtree(folder)


def _prepare(folder: Path) -> Dovecot:
    folder.chmod(0o711)
    owner = pwd.getpwnam(MAIL_USER)
    for name in ("mail", "people"):
        (folder / name).mkdir()
        os.chown(folder / name, owner.pw_uid, owner.pw_gid)
    certificate, key = make_certificate().write(folder)
    server = Dovecot(folder=folder, port=free_port(), tls_port=free_port())
    config = CONFIG.format(
        folder=folder,
        certificate=certificate,
        key=key,
        port=server.port,
        tls_port=server.tls_port,
        mail_user=owner.pw_uid,
        mail_group=owner.pw_gid,
        password=PASSWORD,
    )
    (folder / "dovecot.conf").write_text(config)
    return server


def _descendants(pid: int) -> list[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        # It ended meanwhile.
        return []
    return [each for child in map(int, listed) for each in (child, *_descendants(child))]
