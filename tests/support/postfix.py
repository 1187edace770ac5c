"""A real mail server for tests: Debian's postfix as a child, with its own config and queue.

It listens on loopback alone, in the clear (with STARTTLS) and with TLS from the start, and
delivers mail for in.test into one Maildir. `nobody@in.test` is unknown and `late@in.test` is put
off. What it takes, and for how long it is down, is the test's to decide.
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

import attrs
import pytest
import trio

from bench.ports import free_port
from muster.clients.mail.settings import MailServer, Security
from tests.support.certificate import make_certificate
from tests.support.waiting import until

POSTFIX = Path("/usr/sbin/postfix")
DAEMONS = Path("/usr/lib/postfix/sbin")
START_SECONDS = 20.0
SIZE_BYTES_MAX = 50_000
MAIL_USER = "nobody"
MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
daemon_directory = {daemons}
maillog_file = {folder}/log/mail.log
maillog_file_prefixes = {folder}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = postfix.test
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
local_recipient_maps =
relay_domains =
virtual_mailbox_domains = in.test
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = static:all/
virtual_minimum_uid = 1
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
smtpd_recipient_restrictions = check_recipient_access inline:{{
    {{ nobody@in.test = 550 5.1.1 no such mailbox }},
    {{ late@in.test = 450 4.2.0 greylisted }} }}, permit_mynetworks, reject
smtpd_tls_cert_file = {folder}/cert.pem
smtpd_tls_key_file = {folder}/key.pem
smtpd_tls_security_level = may
smtpd_peername_lookup = no
message_size_limit = {size}
smtputf8_enable = yes
smtputf8_autodetect_classes = all
"""
MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
127.0.0.1:{tls_port} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


@attrs.define(kw_only=True)
class Postfix:
    """One postfix over its lives."""

    folder: Path
    port: int
    tls_port: int
    process: trio.Process | None = None

    async def start(self) -> None:
        """Begin a life, and wait until it answers."""
        assert self.process is None, "it runs"
        self.process = await trio.lowlevel.open_process(
            # Not `postfix start-fg`, whose master leaves our child for a session of its own.
            [DAEMONS / "master", "-c", str(self.folder / "config"), "-d"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # It and its workers are one group, and it ends all of its group.
            start_new_session=True,
        )
        await until(self._greets, START_SECONDS)

    async def kill(self) -> None:
        """End it with all its workers, as a power cut would; no error if it does not run."""
        process, self.process = self.process, None
        if process is None:
            return
        # Not waited for yet, so the group's number is still our child's.
        os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
            # Its workers hold the ports until they are gone too.
            await until(self._is_gone)

    async def _is_gone(self) -> bool:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.port):
                return False
        except OSError:
            return True

    async def _greets(self) -> bool:
        assert self.process is not None, "it was started"
        assert self.process.poll() is None, self.log()
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                return b"220" in await stream.receive_some(1000)
        except (OSError, trio.BrokenResourceError):
            return False

    def log(self) -> str:
        """What it logged."""
        path = self.folder / "log" / "mail.log"
        return path.read_text(errors="replace") if path.exists() else "no log"

    def as_seen(self, security: Security) -> MailServer:
        """This server as a plugin's setting."""
        return MailServer(
            host="127.0.0.1",
            port=self.tls_port if security is Security.TLS else self.port,
            security=security,
            login=None,
            tls=make_certificate().client_context(),
        )

    def arrived(self) -> list[bytes]:
        """The mails that it delivered, oldest first."""
        folder = self.folder / "mail" / "all" / "new"
        if not folder.exists():
            return []
        return [path.read_bytes() for path in sorted(folder.iterdir(), key=os.path.getmtime)]


def skip_without_postfix() -> None:
    """Skip the test where postfix can't be run."""
    if not POSTFIX.exists():
        pytest.skip("postfix is not installed (Debian: postfix)")
    if os.geteuid() != 0:
        pytest.skip("postfix is started as root here, which this is not")


@asynccontextmanager
async def running_postfix() -> AsyncIterator[Postfix]:
    """Run a postfix until the block ends; the test is skipped where there can be none."""
    skip_without_postfix()
    # Not in the test's own folder: its processes have users of their own, who must get there.
    folder = Path(tempfile.mkdtemp(prefix="postfix-"))
    try:
        server = _prepare(folder)
        await server.start()
        try:
            yield server
        finally:
            await server.kill()
    finally:
        shutil.rmtree(folder)


def _prepare(folder: Path) -> Postfix:
    folder.chmod(0o711)
    for name in ("config", "queue", "data", "log", "mail"):
        (folder / name).mkdir(mode=0o755)
    shutil.chown(folder / "data", "postfix")
    owner = pwd.getpwnam(MAIL_USER)
    os.chown(folder / "mail", owner.pw_uid, owner.pw_gid)
    make_certificate().write(folder)
    server = Postfix(folder=folder, port=free_port(), tls_port=free_port())
    main = MAIN.format(
        folder=folder,
        daemons=DAEMONS,
        uid=owner.pw_uid,
        gid=owner.pw_gid,
        size=SIZE_BYTES_MAX,
    )
    (folder / "config" / "main.cf").write_text(main)
    master = MASTER.format(port=server.port, tls_port=server.tls_port)
    (folder / "config" / "master.cf").write_text(master)
    check = [str(POSTFIX), "-c", str(folder / "config"), "check"]
    subprocess.run(check, check=True, capture_output=True)
    return server
