"""A plugin killed at each step and started again: no draft reaches the upstream twice."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.support.plugin_child import MOMENTS, main
from tests.support.scripted_server import RESULT, ScriptedServer, scripted_server
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
CHILD_SECONDS_MAX = 60

# What the upstream saw, and what muster was told, after the kill and one whole run.
SENT = {"ok": True, "external_ref": "line-17"}
OUTCOMES: dict[str, tuple[list[str], object]] = {
    # The claim's answer died with the process: the lease makes it unconfirmed.
    "before:record_claimed": ([], None),
    # Known not to have been sent, and the lease still holds: it is sent now.
    "after:record_claimed": (["17"], SENT),
    "before:record_sending": (["17"], SENT),
    # Nobody can know any more, so nothing is sent and nothing is claimed to be.
    "after:record_sending": ([], None),
    "before:record_not_sent": ([], None),
    # The sink knew that nothing went, and that is written down: sent now, and only now.
    "after:record_not_sent": (["17"], SENT),
    "in:send": (["17"], None),
    "before:record_done": (["17"], None),
    "after:record_done": (["17"], SENT),
    "before:record_reported": (["17"], SENT),
    "after:record_reported": (["17"], SENT),
}


async def run_child(
    server: ScriptedServer, folder: Path, moment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the plugin in its own process until it ends or kills itself."""
    arguments = [server.url, str(folder / "state"), str(folder / "upstream"), moment, "-"]
    with trio.fail_after(CHILD_SECONDS_MAX):
        return await trio.run_process(
            [sys.executable, "-m", "tests.support.plugin_child", *arguments],
            cwd=ROOT,
            capture_stderr=True,
            check=False,
        )


async def start_again(server: ScriptedServer, folder: Path, proof: str = "-") -> None:
    """Run the plugin here until there is nothing to do: what it knows lies in its folder alone."""
    with trio.fail_after(CHILD_SECONDS_MAX):
        await main(server.url, str(folder / "state"), str(folder / "upstream"), "never", proof)


def sent_lines(folder: Path) -> list[str]:
    """The draft ids that the upstream saw, in order."""
    upstream = folder / "upstream"
    return upstream.read_text().split() if upstream.exists() else []


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_kill_at_any_step_sends_no_draft_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """Killed at this step and started again, the plugin sends at most once and reports no guess."""
    async with scripted_server() as server:
        server.approve(17)
        killed = await run_child(server, tmp_path, moment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        await start_again(server, tmp_path)
        assert (sent_lines(tmp_path), server.results.get(17)) == OUTCOMES[moment]
        if "send" in moment:
            assert ("unconfirmed" in capsys.readouterr().err) is (OUTCOMES[moment][1] is None)
        # A third start finds everything settled.
        reports = len(server.asked(RESULT))
        await start_again(server, tmp_path)
        assert (sent_lines(tmp_path), len(server.asked(RESULT))) == (OUTCOMES[moment][0], reports)


@pytest.mark.rule(99, 100)
@pytest.mark.parametrize("moment", ["in:send", "before:record_done"])
async def test_a_sending_that_can_be_proven_is_reported(tmp_path: Path, moment: str) -> None:
    """Killed right after the sending, the plugin reports what its upstream can prove."""
    async with scripted_server() as server:
        server.approve(17)
        await run_child(server, tmp_path, moment)
        await start_again(server, tmp_path, "proof")
        assert sent_lines(tmp_path) == ["17"]
        assert server.results == {17: SENT}


async def test_two_processes_cannot_share_a_state_folder(tmp_path: Path) -> None:
    """The second process on a state folder ends at once and names the first."""
    async with scripted_server() as server, trio.open_nursery() as nursery:
        arguments = [server.url, str(tmp_path / "state"), str(tmp_path / "upstream"), "x:x", "-"]
        first = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, "-m", "tests.support.plugin_child", *arguments],
                cwd=ROOT,
                check=False,
            )
        )
        await until(lambda: server.requests, CHILD_SECONDS_MAX)
        second = await run_child(server, tmp_path, "never")
        assert second.returncode == 1
        assert f"in use by process {first.pid}".encode() in second.stderr
        nursery.cancel_scope.cancel()
