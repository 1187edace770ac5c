"""muster's hooks in settings.json: put in and taken out, and nothing else touched."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from muster.clients.mirror.hook_rules import EVENTS
from muster.clients.mirror.hook_settings import (
    SettingsError,
    change,
    events_of,
    read_version,
    settings_path,
    with_hooks,
    without_hooks,
)

PROGRAM = "/opt/muster/bin/muster"
ALL = tuple(EVENTS)
THEIRS = {"type": "command", "command": "say done"}
FOREIGN = st.fixed_dictionaries(
    {},
    optional={
        "model": st.text(max_size=5),
        "hooks": st.dictionaries(
            st.sampled_from([*ALL[:4], "CwdChanged"]),
            st.lists(st.just({"matcher": "Bash", "hooks": [THEIRS]}), max_size=2),
            max_size=3,
        ),
    },
)


def ours(settings: dict[str, Any], event: str) -> list[str]:
    """The commands of muster for an event."""
    handlers = [each for group in settings["hooks"].get(event, []) for each in group["hooks"]]
    return [each["command"] for each in handlers if "mirror hook" in each["command"]]


@bounded(deadline=None)
@given(FOREIGN)
def test_what_was_there_stays(settings: dict[str, Any]) -> None:
    """Installing adds one hook an event, twice is once, and removing gives back what was there."""
    installed = with_hooks(settings, PROGRAM, ALL)
    for event in EVENTS:
        assert ours(installed, event) == [f"{PROGRAM} mirror hook {event}"]
        before = settings.get("hooks", {}).get(event, [])
        assert installed["hooks"][event][: len(before)] == before
    assert with_hooks(installed, PROGRAM, ALL) == installed
    removed = without_hooks(installed)
    for event in (*EVENTS, "CwdChanged"):
        assert removed.get("hooks", {}).get(event, []) == settings.get("hooks", {}).get(event, [])
    assert removed.get("model") == settings.get("model")


def test_a_moved_program_takes_the_place_of_the_old_one() -> None:
    """An installation from another place replaces the hooks of the first."""
    installed = with_hooks(with_hooks({}, "/old/muster", ALL), "'/new place/muster'", ALL)
    assert ours(installed, "Stop") == ["'/new place/muster' mirror hook Stop"]
    by_python = with_hooks(installed, "/usr/bin/python3 -m muster", ALL)
    assert ours(by_python, "Stop") == ["/usr/bin/python3 -m muster mirror hook Stop"]
    assert without_hooks(by_python) == {}


def test_a_group_that_is_shared_keeps_the_rest() -> None:
    """A handler of somebody else's in the same group is kept."""
    mine = {"type": "command", "command": "muster mirror hook Stop"}
    like_it = {"type": "command", "command": "musters mirror hook Stop --mine"}
    settings = {"hooks": {"Stop": [{"hooks": [THEIRS, mine, like_it]}]}}
    assert without_hooks(settings) == {"hooks": {"Stop": [{"hooks": [THEIRS, like_it]}]}}


def test_the_file_is_made_and_written_only_when_it_changes(tmp_path: Path) -> None:
    """A missing file is made; a second installation leaves it untouched; a link stays a link."""
    path = tmp_path / "config" / "settings.json"
    assert change(path, PROGRAM, ALL)
    stamp = path.stat()
    assert not change(path, PROGRAM, ALL)
    assert path.stat() == stamp
    link = tmp_path / "settings.json"
    link.symlink_to(path)
    path.chmod(0o640)
    assert change(link, None)
    assert link.is_symlink()
    assert json.loads(path.read_text()) == {}
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "// mine\n{}", '{"hooks": []}', '{"hooks": {"Stop": {}}}', "[" * 100_000, "\xff"],
)
@pytest.mark.parametrize("program", [PROGRAM, None])
def test_a_broken_file_is_left_as_it_is(tmp_path: Path, content: str, program: str | None) -> None:
    """A file that is not settings is told by its name, and not written."""
    path = tmp_path / "settings.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(SettingsError, match=r"settings\.json was left as it is"):
        change(path, program, ALL)
    assert path.read_text(encoding="latin-1") == content


def test_the_settings_are_where_claude_code_looks(tmp_path: Path) -> None:
    """CLAUDE_CONFIG_DIR moves them; else they are in ~/.claude."""
    assert settings_path({"CLAUDE_CONFIG_DIR": str(tmp_path)}) == tmp_path / "settings.json"
    assert settings_path({}) == Path.home() / ".claude" / "settings.json"


def test_no_version_gets_an_event_that_it_does_not_know() -> None:
    """Older versions and an unknown one get fewer events; a new one gets them all."""
    assert events_of((2, 1, 197)) == events_of((3, 0, 0)) == ALL
    fewest = events_of(None)
    assert fewest == events_of((1, 0, 85))
    assert {"SessionStart", "UserPromptSubmit", "Notification", "Stop"} <= set(fewest)
    assert not {"PermissionRequest", "StopFailure"} & set(fewest)
    assert set(events_of((2, 1, 16))) - set(fewest) == {"PermissionRequest"}
    assert "PermissionDenied" not in events_of((2, 1, 88))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.197 (Claude Code)\n", (2, 1, 197)),
        ("10.0.0", (10, 0, 0)),
        ("", None),
        ("claude 2.1", None),
        ("9" * 5000, None),
    ],
)
def test_a_version_is_read(said: str, version: tuple[int, int, int] | None) -> None:
    """What `claude --version` says is its version, or nothing."""
    assert read_version(said) == version


def test_fewer_events_take_away_the_others() -> None:
    """Installing for an older version leaves none of a newer one's hooks."""
    older = with_hooks(with_hooks({}, PROGRAM, ALL), PROGRAM, events_of(None))
    assert set(older["hooks"]) == set(events_of(None))
