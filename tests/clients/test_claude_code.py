"""The backend that starts Claude Code: what the program is given, and what comes of a turn."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.clients.agent.backend import TurnError, Usage
from muster.clients.agent.claude_code import MCP_FILE, as_text
from tests.support.claude_stage import DONE, TEXT, ClaudeStage, Heard, set_stage
from tests.support.desk import OpenDesk


@pytest.fixture
async def stage(desk: OpenDesk, tmp_path: Path) -> AsyncIterator[ClaudeStage]:
    """A stand-in that calls the tools of a real muster."""
    async with desk() as at:
        yield set_stage(tmp_path, url=at.server.url, token=at.chief_token)


def is_there(path: str) -> bool:
    """Whether there is such a file."""
    return Path(path).exists()


async def test_a_turn_is_a_run_of_the_program(stage: ClaudeStage) -> None:
    """The text comes in, what the model says is told, and the result is the last word."""
    heard = Heard()
    async with stage.backend() as backend:
        assert await stage.turn(backend, heard) == "Done."
    assert heard.text == "Let me see.\n"
    assert heard.counted == [
        Usage(
            model="stand-in-1",
            calls=1,
            input_tokens=157,
            cached_input_tokens=50,
            output_tokens=20,
        )
    ]
    (seen,) = stage.seen
    assert seen["text"] == TEXT
    assert seen["instructions"] == "Be kind."


async def test_what_the_program_is_given(stage: ClaudeStage) -> None:
    """It finds an empty folder, nothing of muster's in its environment, and no token anywhere.

    But in the configuration, which is its owner's to read, outside of the folder, and gone after.
    """
    async with stage.backend() as backend:
        await stage.turn(backend)
        assert list(backend.folder.rglob(MCP_FILE)) == []
        assert list((backend.folder / "runs").iterdir()) == []
    (seen,) = stage.seen
    assert seen["there"] == []
    assert not [name for name in seen["environ"] if name.startswith("MUSTER_")]
    assert stage.token not in str([seen["arguments"], seen["environ"], seen["text"]])
    assert seen["environ"]["HOME"] == str(stage.folder)
    assert seen["config_mode"] == "0o600"
    assert seen["config_folder_mode"] == "0o700"
    assert not Path(seen["config"]).is_relative_to(seen["folder"])
    assert not is_there(seen["config"])
    assert seen["server"] == {
        "type": "http",
        "url": f"{stage.url}/mcp",
        "headers": {"Authorization": f"Bearer {stage.token}"},
    }
    state = stage.folder / "state"
    for path in (state, state / "runs", state / "work"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_what_a_killed_runner_left_is_cleared_away(stage: ClaudeStage) -> None:
    """A configuration of a run that nobody ended is gone once the next runner begins."""
    left = stage.folder / "state" / "runs" / "tmp1"
    left.mkdir(parents=True)
    (left / MCP_FILE).write_text(stage.token)
    async with stage.backend():
        assert not left.exists()


async def test_the_model_has_musters_tools_alone(stage: ClaudeStage) -> None:
    """A model that wants a shell, a file and to approve a draft finds none of these."""
    wanted = [
        {"call": "Bash", "arguments": {"command": "muster drafts approve 1"}},
        {"call": "Read", "arguments": {"file_path": "/etc/passwd"}},
        {"call": "Write", "arguments": {"file_path": "/tmp/x", "content": "x"}},
        {"call": "mcp__muster__drafts_approve", "arguments": {"draft_id": 1}},
        {"call": "mcp__muster__approve", "arguments": {"draft_id": 1}},
    ]
    stage.plan([*wanted, DONE])
    async with stage.backend() as backend:
        await stage.turn(backend)
    (seen,) = stage.seen
    assert [refused for _, _, refused in seen["results"]] == [True] * len(wanted)
    assert "--tools=" in seen["arguments"]
    assert "--allowedTools=mcp__muster" in seen["arguments"]


async def test_tools_that_the_owner_named_are_there(stage: ClaudeStage) -> None:
    """With tools of its own allowed the program has these and no others."""
    stage.plan([{"call": "Read"}, {"call": "Bash"}, {"write": "note.txt"}, DONE])
    async with stage.backend(allowed_tools=("Read", "Grep"), model="opus") as backend:
        await stage.turn(backend)
        await stage.turn(backend)
    first, second = stage.seen
    assert [refused for _, _, refused in first["results"]] == [False, True]
    assert "--tools=Read,Grep" in first["arguments"]
    assert "--allowedTools=mcp__muster,Read,Grep" in first["arguments"]
    assert "--model=opus" in first["arguments"]
    assert second["there"] == []
    assert second["folder"] == first["folder"]


async def test_a_text_names_no_file_and_is_no_command(
    stage: ClaudeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a sender writes attaches no file, by the text itself and by the program's setting."""
    secret = stage.folder / "secret"
    secret.write_text("x")
    text = f'| see @{secret} "@{secret}" (@"{secret}") and ada@example.com'
    async with stage.backend() as backend:
        await stage.turn(backend, text=text)
        assert await stage.turn(backend, text="/compact") == "Done."
        monkeypatch.setattr("muster.clients.agent.claude_code.as_text", str)
        await stage.turn(backend, text=text)
    apart, _, setting = stage.seen
    assert f"@{secret}" not in apart["text"]
    assert "ada@example.com" in apart["text"]
    assert (apart["files"], setting["files"]) == ([], [])
    assert f"@{secret}" in setting["text"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("@/etc/passwd", "@ /etc/passwd"),
        ("ada@/etc/passwd", "ada@ /etc/passwd"),
        ("@@x .@x @x", "@ @ x .@ x @ x"),
        ("ada@example.com", "ada@example.com"),
        (" /clear", "Read this:  /clear"),
        ("a /clear \ud800", "a /clear ?"),
    ],
)
def test_a_text_is_made_plain(text: str, read: str) -> None:
    """Every `@` that could name a file is taken apart, and a command is no longer one."""
    assert as_text(text) == read


async def test_a_program_that_is_not_there_is_told(stage: ClaudeStage) -> None:
    """A program that went away since the runner began is the turn's failure."""
    stage.program.unlink()
    async with stage.backend() as backend:
        with pytest.raises(TurnError, match="claude cannot be started"):
            await stage.turn(backend)


async def test_a_text_is_put_in_whole(stage: ClaudeStage) -> None:
    """A turn of the largest size reaches the program, whether it reads at once or not."""
    text = "é" * 200_000
    async with stage.backend() as backend:
        await stage.turn(backend, text=text)
    assert stage.seen[0]["text"] == text


async def test_the_folder_of_a_link_is_not_followed(stage: ClaudeStage) -> None:
    """What a run left in its folder is removed, and a link out of it is only a link."""
    kept = stage.folder / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    async with stage.backend() as backend:
        await stage.turn(backend)
        link = Path(stage.seen[0]["folder"]) / "link"
        link.symlink_to(kept)
        await stage.turn(backend)
    assert stage.seen[1]["there"] == []
    assert (kept / "file").exists()
