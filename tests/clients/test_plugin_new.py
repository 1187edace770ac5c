"""`muster plugin new`: what it writes runs as it is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from muster.clients.demo.children import muster

LINES_MAX = 59


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)


def test_a_new_plugin_keeps_the_contract(tmp_path: Path) -> None:
    """The written plugin is short and keeps every duty of the tester without a change."""
    place = tmp_path / "notes"
    done = run(*muster("plugin", "new"), "notes", "--dir", str(place), "--json")
    assert done.returncode == 0, done.stderr
    files = [place / name for name in ("plugin.py", "README.md", "test_plugin.py")]
    assert json.loads(done.stdout) == {"name": "notes", "files": [str(path) for path in files]}
    assert len(files[0].read_text().splitlines()) <= LINES_MAX
    assert "muster plugin add notes --label Notes" in files[1].read_text()
    folders = ["{inbox}", "{outbox}", "{state}"]
    tested = run(*muster("plugin", "test"), "--", sys.executable, str(files[0]), *folders)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_written_test_is_one(tmp_path: Path) -> None:
    """The test beside the plugin passes, and fails when the plugin is broken."""
    place = tmp_path / "notes"
    assert run(*muster("plugin", "new"), "notes", "--dir", str(place)).returncode == 0
    test = place / "test_plugin.py"
    # One row is enough to see that the test tells the difference.
    test.write_text(test.read_text().replace('"test", "--"', '"test", "--row", "send", "--"'))
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    assert run(*pytest_here).returncode == 0
    plugin = place / "plugin.py"
    plugin.write_text(plugin.read_text().replace("file.write(draft.body)", 'file.write("No.")'))
    test.write_text(test.read_text().replace('"send", ', '"send", "--patience", "2", '))
    assert run(*pytest_here).returncode == 1


@pytest.mark.parametrize("taken", ["a folder", "a file"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str) -> None:
    """A name that is taken in the folder is exit 7, and what is there stays."""
    place = tmp_path / "notes"
    if taken == "a folder":
        place.mkdir()
        (place / "plugin.py").write_text("mine")
    else:
        place.write_text("mine")
    done = run(*muster("plugin", "new"), "notes", "--dir", str(place))
    assert done.returncode == 7
    assert "nothing was written" in done.stderr
    kept = place / "plugin.py" if taken == "a folder" else place
    assert kept.read_text() == "mine"


def test_a_name_that_no_plugin_can_have_is_refused(tmp_path: Path) -> None:
    """A name beyond the grammar is exit 2 before anything is written."""
    done = run(*muster("plugin", "new"), "Not A Name", "--dir", str(tmp_path / "x"))
    assert done.returncode == 2
    assert not (tmp_path / "x").exists()
