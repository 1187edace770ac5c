"""A real IMAP server: Debian's dovecot as a child, with its own configuration and folders.

It listens on loopback alone and keeps its ports over its lives. Any user logs in with the one
password; each has a Maildir of their own. It is started as root, since it changes users.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import attrs
import trio

DOVECOT = Path("/usr/sbin/dovecot")
MAIL_USER = "nobody"
START_SECONDS = 20.0
POLL_SECONDS = 0.02
GONE_SECONDS = 10.0
CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
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
  args = uid={mail_user} gid={mail_group} home={folder}/homes/%u
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
WITHOUT_TLS = "ssl = no\n"
WITH_TLS = """
ssl = yes
ssl_cert = <{certificate}
ssl_key = <{key}
"""


@attrs.define(kw_only=True)
class Dovecot:
    """One dovecot over its lives; `tls_port` is used only with a certificate."""

    folder: Path
    port: int
    tls_port: int
    process: trio.Process | None = None

    async def start(self) -> None:
        """Begin a life, and wait until it answers."""
        assert self.process is None, "it runs"
        with trio.CancelScope(shield=True):
            self.process = await trio.lowlevel.open_process(
                [str(DOVECOT), "-F", "-c", str(self.folder / "dovecot.conf")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        with trio.fail_after(START_SECONDS):
            while not await self._greets():  # noqa: ASYNC110 - another program's start
                await trio.sleep(POLL_SECONDS)

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
            # A worker on its way out still holds its socket, and the next life would take that for
            # a dovecot that runs.
            with trio.fail_after(GONE_SECONDS):
                while any(map(_runs, children)):  # noqa: ASYNC110 - other programs' ends
                    await trio.sleep(POLL_SECONDS)

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


def why_no_dovecot() -> str | None:
    """Why dovecot can't be run here, as a sentence; None where it can."""
    if not DOVECOT.exists():
        return "dovecot is not installed (Debian: dovecot-imapd)"
    if os.geteuid() != 0:
        return "dovecot is started as root here, which this is not"
    return None


D = TypeVar("D", bound=Dovecot)


@asynccontextmanager
async def running_dovecot(
    kind: type[D],
    *,
    port: int,
    tls_port: int,
    password: str,
    certificate: tuple[Path, Path] | None = None,
) -> AsyncIterator[D]:
    """Run a dovecot of this class until the block ends; `certificate` is a file and its key's."""
    # Not in anybody's own folder: a socket's path has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
    try:
        server = kind(folder=folder, port=port, tls_port=tls_port)
        _configure(server, password, certificate)
        try:
            await server.start()
            yield server
        finally:
            await server.kill()
    finally:
        shutil.rmtree(folder)


def _configure(server: Dovecot, password: str, certificate: tuple[Path, Path] | None) -> None:
    folder = server.folder
    folder.chmod(0o711)
    owner = pwd.getpwnam(MAIL_USER)
    for name in ("mail", "homes"):
        (folder / name).mkdir()
        os.chown(folder / name, owner.pw_uid, owner.pw_gid)
    tls = WITHOUT_TLS
    if certificate is not None:
        tls = WITH_TLS.format(certificate=certificate[0], key=certificate[1])
    config = CONFIG.format(
        folder=folder,
        port=server.port,
        tls_port=server.tls_port,
        mail_user=owner.pw_uid,
        mail_group=owner.pw_gid,
        password=password,
    )
    (folder / "dovecot.conf").write_text(config + tls)


def _descendants(pid: int) -> list[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        # It ended meanwhile.
        return []
    return [each for child in map(int, listed) for each in (child, *_descendants(child))]


def _runs(pid: int) -> bool:
    """Whether a process is there and not merely waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
