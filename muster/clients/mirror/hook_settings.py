"""muster's hooks in Claude Code's settings.json: put in, taken out, and nothing else touched.

The file is a person's and Claude Code's, which writes it too. So it is only written when something
changes, as a whole, in the place of what was read and of nothing newer; one that can't be read as
settings is left as it is.

Claude Code passes over a whole file of settings for one event that it does not know. So its version
is asked for, and an unknown one gets the events that every version knows.
"""

import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from muster.clients.mirror.hook_rules import EVENTS, OLDEST

SETTINGS_BYTES_MAX: Final = 4 << 20
HOOK_SECONDS: Final = 5
"""After so long Claude Code goes on without the hook."""

_OURS: Final = re.compile(r"(?:^|[\s/'\"])muster['\"]? mirror hook [A-Za-z]+$")


Version = tuple[int, int, int]


class SettingsError(Exception):
    """The settings were not changed; a sentence that says why."""


def settings_path(environ: Mapping[str, str]) -> Path:
    """Where Claude Code keeps the settings of this user."""
    folder = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home() / ".claude") / "settings.json"


def read_version(said: str) -> Version | None:
    """The version in what `claude --version` says; None when there is none in it."""
    found = re.match(r"\s*(\d{1,4})\.(\d{1,4})\.(\d{1,6})\b", said)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def events_of(version: Version | None) -> tuple[str, ...]:
    """The events that are asked for of a Claude Code of this version; None is any."""
    return tuple(event for event, since in EVENTS.items() if since <= (version or OLDEST))


def with_hooks(settings: Mapping[str, Any], program: str, events: Sequence[str]) -> dict[str, Any]:
    """The settings with a hook for each event, called as `program mirror hook EVENT`.

    Those of an earlier installation are replaced. Raises SettingsError for settings of another
    shape than Claude Code's.
    """
    cleaned = without_hooks(settings)
    hooks = dict(cleaned.get("hooks", {}))
    for event in events:
        command = f"{program} mirror hook {event}"
        handler = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        hooks[event] = [*hooks.get(event, []), {"hooks": [handler]}]
    return {**cleaned, "hooks": hooks}


def without_hooks(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without muster's hooks, and without what held nothing but them."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise SettingsError('"hooks" is no object')
    kept: dict[str, Any] = {}
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise SettingsError(f'"hooks.{event}" is no list')
        left = [each for each in map(_without_ours, groups) if each is not None]
        if left or not groups:
            kept[event] = left
    cleaned = {**settings, "hooks": kept}
    if not kept and hooks != {}:
        del cleaned["hooks"]
    return cleaned if "hooks" in settings else dict(settings)


def change(path: Path, program: str | None, events: Sequence[str] = tuple(EVENTS)) -> bool:
    """Put hooks of `program` into the file, or take muster's out (None); whether it changed.

    The file is made when it is missing; a link is followed and stays. Raises SettingsError.
    """
    path = path.resolve()
    before = _read(path)
    settings = _parse(path, before)
    try:
        after = (
            without_hooks(settings) if program is None else with_hooks(settings, program, events)
        )
    except SettingsError as error:
        raise SettingsError(f"{path} was left as it is: {error}") from error
    if after == settings:
        return False
    try:
        _replace(path, before, json.dumps(after, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise SettingsError(f"{path} can't be written: {error.strerror}") from error
    return True


def _without_ours(group: Any) -> Any:
    """A group without muster's handlers; None when it held nothing else."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    handlers = group["hooks"]
    left = [each for each in handlers if not _is_ours(each)]
    if len(left) == len(handlers):
        return group
    return {**group, "hooks": left} if left else None


def _is_ours(handler: Any) -> bool:
    command = handler.get("command") if isinstance(handler, dict) else None
    return isinstance(command, str) and _OURS.search(command) is not None


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(SETTINGS_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}") from error
    if len(content) > SETTINGS_BYTES_MAX:
        raise SettingsError(
            f"{path} was left as it is: it has more than {SETTINGS_BYTES_MAX} bytes"
        )
    return content


def _parse(path: Path, content: bytes | None) -> dict[str, Any]:
    if content is None or not content.strip():
        return {}
    try:
        settings = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} was left as it is: it is no JSON ({error})") from error
    if not isinstance(settings, dict):
        raise SettingsError(f"{path} was left as it is: it is no object")
    return settings


def _replace(path: Path, before: bytes | None, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=".settings-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            Path(new).chmod(stat.S_IMODE(path.stat().st_mode))
        if _read(path) != before:
            raise SettingsError(f"{path} was changed by somebody else meanwhile: try again")
        Path(new).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(new).unlink()
