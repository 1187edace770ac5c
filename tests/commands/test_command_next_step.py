"""A command that is printed for a person to type works in their shell as it is printed."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from muster.commands.next_step import to_type
from tests.support.program import bare_program


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A muster in a folder that PATH names, called as it would be."""
    program = tmp_path / "bin" / "muster"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho muster\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.delenv("MUSTER_DATA_DIR", raising=False)
    monkeypatch.setattr(sys, "argv", [str(program)])
    return program


def test_the_program_on_the_path_is_called_by_its_name(installed: Path) -> None:
    """Where the shell finds this very program, the name alone is enough."""
    assert to_type("drafts", "list") == "muster drafts list"


def test_another_program_is_called_by_its_place(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A muster that is not the one of PATH is named whole, from whatever folder it was called."""
    other = tmp_path / "my venv" / "muster"
    other.parent.mkdir()
    other.write_bytes(installed.read_bytes())
    monkeypatch.chdir(other.parent)
    monkeypatch.setattr(sys, "argv", ["./muster"])
    assert to_type("serve") == f"{shlex.quote(str(other))} serve"
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "argv", [str(installed)])
    assert to_type("serve") == f"{installed} serve"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "muster" / "__main__.py")])
    assert to_type("serve") == f"{sys.executable} -m muster serve"


def test_only_the_data_folder_stands_in_front(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MUSTER_DATA_DIR stands there quoted and whole, and no other setting, secret or not."""
    monkeypatch.setenv("MUSTER_AGENT_TOKEN", "mag_hunter2")
    monkeypatch.setenv("MUSTER_LOG", "debug")
    monkeypatch.setenv("MUSTER_DATA_DIR", "/srv/ada's data")
    line = to_type("user", "list")
    assert line == """MUSTER_DATA_DIR='/srv/ada'"'"'s data' muster user list"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_DATA_DIR", "data")
    assert to_type("user", "list") == f"MUSTER_DATA_DIR={tmp_path}/data muster user list"
    monkeypatch.setenv("MUSTER_DATA_DIR", "~/data")
    assert to_type("user", "list") == "MUSTER_DATA_DIR='~/data' muster user list"
    assert to_type("serve", settings={"MUSTER_DATA_DIR": "/x"}) == "MUSTER_DATA_DIR=/x muster serve"


def test_what_the_program_prints_runs_in_a_shell(tmp_path: Path) -> None:
    """The line that `muster status` names for a start, typed into a shell, is that command."""
    script = Path(sys.executable).with_name("muster")
    environ = bare_program(tmp_path).environ
    folder = str(tmp_path / "a folder")
    told = subprocess.run(
        [script, "status"],
        env=environ | {"MUSTER_BIND": "127.0.0.1:1", "MUSTER_DATA_DIR": folder},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    ).stderr
    line = told.partition("this starts one: ")[2].strip()
    assert line.startswith(f"MUSTER_DATA_DIR={shlex.quote(folder)} ")
    helped = subprocess.check_output(
        ["/bin/sh", "-c", f"{line} --help"], text=True, cwd="/", env={"PATH": os.environ["PATH"]}
    )
    assert "Usage: muster serve" in helped
