"""The scene of the demo: a folder, its mails, an account, a plugin, a chief.

<folder>/muster/            MUSTER_DATA_DIR
<folder>/mail/in, out       the Maildir that is read and the one that is written
<folder>/mail/state         the mail plugin's own
<folder>/*.token            0600; kept, so that a kept folder can be used again
"""

import importlib.resources
import os
import secrets
import socket
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

import attrs
import trio

from muster.clients.demo.children import CommandError, DemoError, environment, muster, run
from muster.clients.demo.report import KINDS, Mail, read_mail

OWNER = "ada"
CHIEF = "helper"
PLUGIN = "mail"
FIRST_PORT = 8420
PORTS_MAX = 100
CONFLICT = 7


@attrs.frozen(kw_only=True)
class Stage:
    """Where everything of a demo lies."""

    folder: Path
    mails: tuple[Mail, ...]
    is_new: bool

    @property
    def data(self) -> Path:
        """The folder that muster keeps its own things in."""
        return self.folder / "muster"

    @property
    def inbox(self) -> Path:
        """The Maildir with the demo's mails."""
        return self.folder / "mail" / "in"

    @property
    def outbox(self) -> Path:
        """The Maildir that the replies are written to."""
        return self.folder / "mail" / "out"

    @property
    def state(self) -> Path:
        """The mail plugin's own folder."""
        return self.folder / "mail" / "state"

    @property
    def script(self) -> Path:
        """The rules of the chief."""
        return self.folder / "rules.toml"

    def token(self, name: str) -> Path:
        """The file that holds the token of the chief or the plugin."""
        return self.folder / f"{name}.token"

    def environment(self, **settings: str) -> dict[str, str]:
        """What a command on this muster gets to see."""
        return environment({"MUSTER_DATA_DIR": str(self.data), **settings})


def shipped() -> Traversable:
    """The folder of the package with the rules and the mails."""
    return importlib.resources.files("muster.clients.demo")


def kinds() -> dict[str, str]:
    """What should become of each shipped mail, by file name."""
    table = tomllib.loads((shipped() / "kinds.toml").read_text(encoding="utf-8"))
    assert set(table.values()) <= KINDS, "a mail of a kind that nobody knows"
    return table


def set_out(folder: Path) -> Stage:
    """Lay out the folder and put the shipped mails into its inbox."""
    is_new = not (folder / "muster").exists()
    for name in ("cur", "new", "tmp"):
        (folder / "mail" / "in" / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "muster").mkdir(mode=0o700, exist_ok=True)
    mails = []
    for name, kind in sorted(kinds().items()):
        path = folder / "mail" / "in" / "new" / name
        path.write_bytes((shipped() / "mail" / name).read_bytes())
        mails.append(read_mail(path, kind))
    stage = Stage(folder=folder, mails=tuple(mails), is_new=is_new)
    stage.script.write_bytes((shipped() / "rules.toml").read_bytes())
    return stage


async def introduce(stage: Stage) -> None:
    """Add the account, the plugin and the chief, as a person would; what is there stays."""
    environ = stage.environment()
    password = secrets.token_urlsafe(16).encode()
    email = ("--email", "ada@example.test", "--password-stdin", "--json")
    try:
        await run(muster("user", "add", OWNER, *email), environ, stdin=password + b"\n")
    except CommandError as error:
        if error.code != CONFLICT:
            raise
    plugin = ("plugin", "add", PLUGIN, "--label", "Mail", "--scope", "mail")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_with_token, stage, PLUGIN, plugin)
        nursery.start_soon(_with_token, stage, CHIEF, ("agent", "add", CHIEF, "--chief"))


async def _with_token(stage: Stage, name: str, arguments: Sequence[str]) -> None:
    file = stage.token(name)
    if file.exists():
        return
    command = muster(*arguments, "--owner", OWNER, "--json")
    try:
        added = await run(command, stage.environment())
    except CommandError as error:
        if error.code == CONFLICT:
            told = f"{stage.folder} holds something that no demo made: {error}"
            raise DemoError(told) from error
        raise
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as kept:
        kept.write(added["token"] + "\n")


async def choose_bind(environ: Mapping[str, str]) -> str:
    """The address to serve: MUSTER_BIND, else the first free port from 8420 on."""
    if environ.get("MUSTER_BIND"):
        return environ["MUSTER_BIND"]
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_MAX):
        with trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                await probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return f"127.0.0.1:{port}"
    raise DemoError(f"no port from {FIRST_PORT} on is free: set MUSTER_BIND")
