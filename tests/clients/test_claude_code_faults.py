"""What goes wrong with Claude Code, and what the turn says of it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from muster.clients.agent.backend import TurnError
from muster.clients.agent.child_program import LINE_BYTES_MAX, TERM_SECONDS
from tests.support.claude_stage import DONE, ClaudeStage, Heard, Step, set_stage
from tests.support.desk import OpenDesk
from tests.support.waiting import until


@pytest.fixture
async def stage(desk: OpenDesk, tmp_path: Path) -> AsyncIterator[ClaudeStage]:
    """A stand-in that calls the tools of a real muster."""
    async with desk() as at:
        yield set_stage(tmp_path, url=at.server.url, token=at.chief_token)


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


LIMIT = "API Error: Request rejected (429) · slow down"
WORDS = "\x1b[31mbroken\x1b[0m\x07\n\n  pipe"


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([{"exit": 3, "stderr": WORDS}], r"without a result, by exit code 3: broken pipe$"),
        ([{"exit": 0}], r"without a result, by exit code 0$"),
        ([{"exit": 1, "stderr": "x" * 9000}], r"by exit code 1: x{500}$"),
        ([{"line": '{"type":"result","subtype":"succ'}], r"without a result, by exit code 0$"),
        ([{"error": LIMIT, "status": 429}], r"^claude: API Error: Request rejected \(429\)"),
        ([{"error": "Not logged in · Please run /login"}], r"^claude: Not logged in"),
        ([{"error": "Prompt is too long"}], r"^claude: Prompt is too long$"),
        ([{"line": '{"type":"result","subtype":"error_max_turns"}'}], r"^claude: error_max_turns$"),
        ([{"line": '{"type":"result","subtype":"success","result":"ok"}'}], r"^claude: ok$"),
    ],
)
async def test_a_run_without_a_good_result_fails_the_turn(
    stage: ClaudeStage, steps: list[Step], told: str
) -> None:
    """Whatever kept the program from a result is told in one short clean sentence, once."""
    stage.plan(steps)
    heard = Heard()
    async with stage.backend() as backend:
        with pytest.raises(TurnError, match=told):
            await stage.turn(backend, heard)
    assert len(stage.seen) == 1
    assert heard.counted == []


@pytest.mark.parametrize(
    "line",
    [
        "[SandboxDebug] hello",
        '{"type":"assistant","mess',
        '"text"',
        "[" * 100_000,
        "\x00",
        '{"type":"assistant","message":{"content":[7,{"type":"text","text":7}],"usage":[]}}',
        '{"type":"assistant","message":7}',
        '{"type":"system","subtype":"init","mcp_servers":{"name":"muster"}}',
        '{"type":"from a newer version"}',
        '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":7}}}',
        '{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":"x"}}}',
        '{"type":"stream_event","event":7}',
    ],
)
async def test_a_line_that_is_none_is_passed_over(stage: ClaudeStage, line: str) -> None:
    """A broken line, a warning and an unknown event change nothing: the result decides."""
    stage.plan([{"say": "First."}, {"line": line}, {"say": "Then."}, DONE])
    heard = Heard()
    async with stage.backend() as backend:
        assert await stage.turn(backend, heard) == "Done."
    assert heard.text == "First.\nThen.\n"


async def test_a_line_without_an_end_is_not_kept(stage: ClaudeStage) -> None:
    """A line of more than 4 MiB is left out, and what follows it is read."""
    stage.plan([{"line": "x" * 1024, "times": LINE_BYTES_MAX // 512}, {"say": "Then."}, DONE])
    heard = Heard()
    async with stage.backend() as backend:
        assert await stage.turn(backend, heard) == "Done."
    assert heard.text == "Then.\n"


async def test_a_good_result_counts_whatever_the_exit_code(stage: ClaudeStage) -> None:
    """A program that exits 1 after a good result has done the turn."""
    stage.plan([DONE | {"code": 1}])
    async with stage.backend() as backend:
        assert await stage.turn(backend) == "Done."


async def test_a_run_that_dies_early_tells_what_it_took(stage: ClaudeStage) -> None:
    """Without a result the tokens are those of the messages that were heard, each once."""
    stage.plan([{"call": "Bash"}, {"say": "And now?"}, {"exit": 1}])
    heard = Heard()
    async with stage.backend() as backend:
        with pytest.raises(TurnError):
            await stage.turn(backend, heard)
    assert heard.usage is not None
    assert (heard.usage.calls, heard.usage.input_tokens, heard.usage.output_tokens) == (2, 314, 40)


async def test_a_call_that_is_cut_off_tells_what_it_took(stage: ClaudeStage) -> None:
    """The tokens of a model call are counted from its first event on."""
    stage.plan([{"say": "First."}, {"begin": True}, {"exit": 1}])
    heard = Heard()
    async with stage.backend() as backend:
        with pytest.raises(TurnError):
            await stage.turn(backend, heard)
    assert heard.usage is not None
    assert (heard.usage.calls, heard.usage.input_tokens, heard.usage.output_tokens) == (2, 314, 21)


async def test_without_musters_tools_the_model_is_not_asked(stage: ClaudeStage) -> None:
    """A program that cannot connect to muster's tools is ended before it spends anything."""
    stage.plan([{"hang": False}])
    heard = Heard()
    async with stage.backend(token="mag_unknown") as backend:
        with trio.fail_after(20):
            with pytest.raises(TurnError, match="could not connect to muster's tools"):
                await stage.turn(backend, heard)
    assert heard.counted == []


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_cancelled_turn_ends_the_program(stage: ClaudeStage, deaf: bool) -> None:
    """SIGTERM, then SIGKILL to all that the program started; what it took is told."""
    stage.plan([{"say": "Hm."}, {"start": 600}, {"hang": deaf}])
    heard = Heard()
    async with stage.backend() as backend:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.turn, backend, heard)
            await until(lambda: bool(stage.seen))
            begun = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - begun < TERM_SECONDS + 5
        (seen,) = stage.seen
        await until(lambda: not is_running(seen["pid"]) and not is_running(seen["child"]))
        await until(lambda: not Path(seen["config"]).exists())
    assert heard.usage is not None
    assert heard.usage.output_tokens == 20


async def test_what_the_program_leaves_running_is_ended(stage: ClaudeStage) -> None:
    """A process that the program started and left behind does not outlive the turn."""
    stage.plan([{"start": 600}, DONE])
    async with stage.backend() as backend:
        with trio.fail_after(20):
            assert await stage.turn(backend) == "Done."
    (seen,) = stage.seen
    await until(lambda: not is_running(seen["child"]))


async def test_a_program_that_reads_nothing_is_no_harm(stage: ClaudeStage) -> None:
    """A program that ends without reading the turn fails it, and the text is not waited for."""
    stage.program.write_text("#!/bin/sh\nexit 7\n")
    async with stage.backend() as backend:
        with pytest.raises(TurnError, match="exit code 7"):
            await stage.turn(backend, text="x" * 1_000_000)


async def test_a_program_that_was_killed_is_told_by_its_signal(stage: ClaudeStage) -> None:
    """A program that something else ended is the turn's failure."""
    stage.plan([{"hang": False}])
    async with stage.backend() as backend, trio.open_nursery() as nursery:

        async def end() -> None:
            await until(lambda: bool(stage.seen))
            os.kill(stage.seen[0]["pid"], 9)

        nursery.start_soon(end)
        with pytest.raises(TurnError, match="without a result, by signal 9"):
            await stage.turn(backend)


async def test_a_program_that_stays_after_its_result_is_ended(stage: ClaudeStage) -> None:
    """The result is the turn's end, whether the program ends or not."""
    result = '{"type":"result","subtype":"success","is_error":false,"result":"Done."}'
    stage.plan([{"line": result}, {"hang": False}])
    async with stage.backend() as backend:
        with trio.fail_after(20):
            assert await stage.turn(backend) == "Done."
    await until(lambda: not is_running(stage.seen[0]["pid"]))


async def test_output_that_is_held_open_is_not_waited_for(stage: ClaudeStage) -> None:
    """A program that ends without a result is over, though what it started holds its output."""
    stage.plan([{"start": 600}, {"exit": 1, "stderr": "broken pipe"}])
    async with stage.backend() as backend:
        with trio.fail_after(20):
            with pytest.raises(TurnError, match="by exit code 1: broken pipe"):
                await stage.turn(backend)
    await until(lambda: not is_running(stage.seen[0]["child"]))


async def test_a_folder_that_fails_fails_the_turn_alone(stage: ClaudeStage) -> None:
    """A state folder that can't be written fails the turn in a sentence, and the next one works."""
    async with stage.backend() as backend:
        runs = stage.folder / "state" / "runs"
        runs.rename(runs.with_name("away"))
        with pytest.raises(TurnError, match=r"claude's folder cannot be used: .*runs"):
            await stage.turn(backend)
        runs.with_name("away").rename(runs)
        assert await stage.turn(backend) == "Done."


async def test_an_answer_that_cannot_be_remembered_is_an_answer(stage: ClaudeStage) -> None:
    """A memory that is full is told beside the answer; one that can't be read fails the turn."""
    heard = Heard()
    async with stage.backend() as backend:
        await backend.sessions.file.run(
            lambda db: db.execute(
                "create trigger full before insert on sessions "
                "begin select raise(abort, 'disk is full'); end"
            )
        )
        assert await stage.turn(backend, heard) == "Done."
        assert "could not be remembered" in heard.text
        assert "disk is full" in heard.text
        await backend.sessions.file.run(lambda db: db.execute("drop table sessions"))
        with pytest.raises(TurnError, match=r"claude's folder cannot be used: .* no such table"):
            await stage.turn(backend)
