"""Records on a host's disk that are damaged, or say what no calendar and no frame holds.

Nothing in them ends the host program, nor makes muster end its socket for ever.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.clients.mirror import frames
from muster.clients.mirror.hook_rules import Doing
from muster.clients.mirror.model import Focus, FocusSource
from muster.clients.mirror.spool import Kept, Prompt, decode, encode
from muster.clients.mirror.transcripts import Reader
from muster.mirror.frames import read_frame

SESSION = "c0ffee00-0000-4000-8000-000000000001"
ODD_TIMES = (
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999Z",
    "1969-12-31T23:59:59Z", "2026-11-30T10:00:00", "now",
)  # fmt: skip
KEPT = Kept(
    session=SESSION, tmux_pid=1, pane="%1", process=1, started=1, cwd="/srv", transcript="",
    doing=Doing(turn="idle"), since=1.0, at=1.0, prompts=(Prompt("d", 1.0),),
)  # fmt: skip


@pytest.mark.parametrize("time", ODD_TIMES)
def test_a_record_of_no_time_is_passed_over(tmp_path: Path, time: str) -> None:
    """A prompt of no time proves nothing, and a title of none is one of now."""
    path = tmp_path / f"{SESSION}.jsonl"
    message = {"role": "user", "content": "hello"}
    records = [
        {"type": "user", "message": message, "timestamp": time},
        {"type": "ai-title", "aiTitle": "a title", "timestamp": time},
    ]
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records))
    reader = Reader(path)
    assert reader.read()
    assert reader.prompts == []
    assert reader.title is not None
    assert reader.title.at is None


@pytest.mark.parametrize(
    "damage",
    [
        {"since": float("nan")},
        {"at": float("inf")},
        {"since": -1.0},
        {"at": 1e300},
        {"process": float("inf")},
        {"doing": Doing(turn="dancing")},
        {"doing": Doing(turn="")},
    ],
    ids=str,
)
def test_a_damaged_file_of_a_session_says_nothing(damage: dict[str, Any]) -> None:
    """It is as if it was not there, until the session's next hook writes it anew."""
    assert decode(encode(KEPT), SESSION) == KEPT
    assert decode(encode(KEPT._replace(**damage)), SESSION) is None


def test_a_prompt_of_no_time_is_none() -> None:
    """The others of its file stay."""
    odd = KEPT._replace(prompts=(Prompt("a", float("nan")), Prompt("b", 1e300), Prompt("d", 1.0)))
    assert decode(encode(odd), SESSION) == KEPT


@pytest.mark.parametrize(
    "cwd", ["/" + "d" * 1023, "/" + "d" * 1024, "/\ud800", "/\0", "here", None], ids=ascii
)
def test_a_title_is_told_wherever_it_was_written(cwd: str | None) -> None:
    """A folder that muster would not take is left out, for a frame it refuses comes back for ever.

    A path of more than 1,024 characters is one that a file system has.
    """
    at = datetime(2026, 1, 1, tzinfo=UTC)
    told = Focus(claude_session=SESSION, title="t", source=FocusSource.SUMMARY, cwd=cwd, at=at)
    frame = msgspec.json.decode(frames.focus(told).encode(1, at.isoformat()))
    read_frame(frame)
    assert frame["cwd"] == (cwd if cwd is not None and len(cwd) == 1024 else None)
