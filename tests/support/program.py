"""Runs the real `muster` program on a database of the test's own, as a process or in this one."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import muster
from muster.__main__ import main
from tests.support.cluster import OwnDatabase

TIMEOUT_SECONDS = 60
PROGRAM = Path(muster.__file__).with_name("__main__.py")


@attrs.frozen(kw_only=True)
class Ended:
    """How a run of the program ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document of a run that went well."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def refusal(self) -> dict[str, Any]:
        """The one JSON line on stderr of a run that did not, and nothing on stdout."""
        assert self.code != 0, self.out
        assert self.out == ""
        assert self.err.count("\n") == 1
        told: dict[str, Any] = json.loads(self.err)
        return told


@attrs.frozen(kw_only=True)
class Program:
    """The program with its environment."""

    environ: dict[str, str]

    def run(self, *arguments: str, stdin: str | bytes = "", **settings: str) -> Ended:
        """Run one command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "muster", *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env=self.environ | settings,
        )
        return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    def call(self, *arguments: str, stdin: str | bytes = "", **settings: str) -> Ended:
        """Do as `run` does in this process: for what a command says and does, in a tenth of a time.

        Not within Trio, and not for `serve`, which takes the process's signals.
        """
        given = io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin)
        streams = [io.TextIOWrapper(raw, "utf-8") for raw in (given, io.BytesIO(), io.BytesIO())]
        with pytest.MonkeyPatch.context() as patch, _environment(self.environ | settings):
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            patch.setattr(sys, "argv", [str(PROGRAM), *arguments])
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        code = ended.value.code
        assert isinstance(code, int)
        for stream in streams:
            stream.seek(0)
        return Ended(code=int(code), out=streams[1].read(), err=streams[2].read())

    def add_user(self, name: str = "ada") -> dict[str, Any]:
        """Open an account."""
        added: dict[str, Any] = self.call(
            *("user", "add", name, "--email", f"{name}@example.test"),
            *("--password-stdin", "--json"),
            stdin="correct horse\n",
        ).document
        return added


@contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()


def bare_program(home: Path) -> Program:
    """The program with its home in `home` and no setting."""
    return Program(
        environ={"PATH": os.environ["PATH"], "HOME": str(home), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    )


def program_on(database: OwnDatabase, home: Path) -> Program:
    """The program on this database."""
    urls = {
        "MUSTER_DATABASE_URL": database.admin_url,
        "MUSTER_DATABASE_APP_URL": database.app_url,
    }
    return attrs.evolve(bare_program(home), environ=bare_program(home).environ | urls)


def is_at_work(pid: int) -> bool:
    """Whether a process lives that is not ours to take note of: a dead one may stay listed."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
