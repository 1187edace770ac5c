"""`muster mirror hooks install` and `muster mirror unit`, as a person types them."""

import configparser
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.clients.mirror.hook_rules import EVENTS
from muster.clients.mirror.hook_settings import events_of
from muster.clients.mirror.unit import HARDENING, NAME, unit_path, unit_text
from tests.support.program import Program, bare_program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program of somebody whose home is this folder."""
    program = bare_program(tmp_path)
    program.environ["HOME"] = str(tmp_path)
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        program.environ.pop(name, None)
    return program


def test_hooks_are_installed_and_removed(program: Program, tmp_path: Path) -> None:
    """They go into ~/.claude/settings.json once, beside what is there, and out again."""
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"model": "m"}')
    claude = tmp_path / "claude"
    claude.write_text("#!/bin/sh\necho '2.1.197 (Claude Code)'\n")
    claude.chmod(0o755)
    first = program.run("mirror", "hooks", "install", "--claude", str(claude))
    assert (first.code, first.out) == (0, "")
    assert str(path) in first.err
    settings = json.loads(path.read_text())
    assert settings["model"] == "m"
    assert set(settings["hooks"]) == {*EVENTS}
    again = program.run("mirror", "hooks", "install", "--claude", str(claude))
    assert "already" in again.err
    assert program.run("mirror", "hooks", "uninstall").code == 0
    assert json.loads(path.read_text()) == {"model": "m"}


def test_hooks_are_printed_without_a_file(program: Program, tmp_path: Path) -> None:
    """--print shows them and touches nothing."""
    printed = program.run("mirror", "hooks", "install", "--print", "--claude", "/nowhere")
    assert set(json.loads(printed.out)["hooks"]) == {*events_of(None)}
    assert "version is unknown" in printed.err
    assert not (tmp_path / ".claude").exists()


def test_a_broken_settings_file_is_refused(program: Program, tmp_path: Path) -> None:
    """What can't be read stays, and the exit code says no."""
    path = tmp_path / "broken.json"
    path.write_text("{")
    ended = program.run(
        "mirror", "hooks", "install", "--settings", str(path), "--claude", "/nowhere"
    )
    assert ended.code == 4
    assert "left as it is" in ended.err
    assert path.read_text() == "{"


def test_a_unit_is_printed_or_written(program: Program, tmp_path: Path) -> None:
    """The unit runs this program with the options, paths whole; --install puts it in its place."""
    options = ["--token-file", "mirror.token", "--interactive", "--url", "http://box.example"]
    printed = program.run("mirror", "unit", *options)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(printed.out)
    command = unit["Service"]["ExecStart"]
    assert f" mirror --token-file {Path.cwd()}/mirror.token --interactive" in command
    assert command.endswith(" --url http://box.example")
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["NoNewPrivileges"] == "yes"
    written = program.run("mirror", "unit", "--install", *options)
    assert "systemctl --user enable --now muster-mirror" in written.err
    assert (tmp_path / ".config" / "systemd" / "user" / NAME).read_text() == printed.out
    assert program.run("mirror", "unit").code == 2


def test_what_starts_sessions_has_no_locks() -> None:
    """A tmux that a resume starts would be under the locks as well, so there are none."""
    assert HARDENING in unit_text(["muster", "mirror"], starts_sessions=False)
    assert "NoNewPrivileges" not in unit_text(["muster", "mirror"], starts_sessions=True)


def test_words_of_the_unit_are_quoted() -> None:
    """Signs that systemd would read are written so that it does not; a line end is refused."""
    text = unit_text(["/a b/muster", '%h $X "q" \\'], starts_sessions=False)
    assert 'ExecStart="/a b/muster" "%%h $$X \\"q\\" \\\\"\n' in text
    with pytest.raises(ValueError, match="control"):
        unit_text(["a\nb"], starts_sessions=False)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """The system itself finds no fault in it, where it is installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    path = tmp_path / NAME
    path.write_text(unit_text(["/bin/true", "a b"], starts_sessions=False))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(path)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_units_are_where_systemd_looks(tmp_path: Path) -> None:
    """XDG_CONFIG_HOME moves them."""
    there = unit_path({"XDG_CONFIG_HOME": str(tmp_path)})
    assert there == tmp_path / "systemd" / "user" / NAME
