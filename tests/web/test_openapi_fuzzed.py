"""Whatever is sent to the doors, they answer as the document says."""

from functools import partial
from pathlib import Path

import pytest
import trio

from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from tests.support.desk import OpenDesk
from tests.support.fuzzing import Fuzzed, fuzz

HOOK_TOKEN = "hook-secret-of-the-tests-with-its-length"


@pytest.mark.parametrize("seconds", [30, pytest.param(300, marks=pytest.mark.long)])
async def test_every_door_answers_as_documented(
    desk: OpenDesk, tmp_path: Path, seconds: int
) -> None:
    """Each with its own credential, no door has a status, header or body beyond the document."""
    ended: dict[str, Fuzzed] = {}
    settings = {
        "MUSTER_PLUGIN_TASK_NAMESPACES": "tracker",
        "MUSTER_HOOK_TOKEN": HOOK_TOKEN,
    }
    async with desk(**settings, MUSTER_HOOK_OWNER="nobody") as at:
        command = AddPersonal(name="fuzz", scope=Scope.WRITE)
        _, personal = await at.db.run(at.owner, add_personal, command)
        doors = {
            "^/plugin/": at.plugin_token,
            "^/api/": personal,
            "^/[a-z.]+$": None,
        }

        async def run(paths: str, token: str | None, folder: Path) -> None:
            await trio.Path(folder).mkdir()
            ended[paths] = await fuzz(at.server, folder, token=token, seconds=seconds, paths=paths)

        async with trio.open_nursery() as nursery:
            for number, (paths, token) in enumerate(doors.items()):
                nursery.start_soon(partial(run, paths, token, tmp_path / str(number)))
    faults = [fuzzed.said for fuzzed in ended.values() if fuzzed.code != 0]
    assert not faults, "\n".join(faults)
    assert len(ended) == len(doors)
