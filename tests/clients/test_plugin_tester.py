"""`muster plugin test`: good plugins pass it, a bad one fails where it is bad."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from muster.clients.demo.children import muster
from muster.clients.plugin_test.fake import FakeMuster
from muster.clients.plugin_test.http import open_http
from muster.clients.plugin_test.program import ROWS
from muster.clients.plugin_test.spool import Spool
from tests.support.desk import OpenDesk
from tests.support.program import is_at_work
from tests.support.waiting import until

# A program, which reads its arguments as soon as it is imported.
BAD = Path(__file__).resolve().parent.parent / "support" / "bad_plugin.py"


def tried(*command: str, rows: tuple[str, ...] = (), patience: int = 30) -> dict[str, Any]:
    """Run the tester on a plugin; its JSON."""
    chosen = [word for row in rows for word in ("--row", row)]
    options = ["--json", "--patience", str(patience), *chosen]
    done = subprocess.run(
        [*muster("plugin", "test"), *options, "--", *command],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["ok"] else 1), done.stderr
    return found


def broken_rows(found: dict[str, Any]) -> dict[str, str]:
    """What was not kept, by its row."""
    return {row["row"]: row["broken"] for row in found["rows"] if not row["ok"]}


def test_the_mail_plugin_keeps_the_contract() -> None:
    """`muster mail` between two Maildirs keeps every duty, wherever it is killed."""
    places = ["--maildir", "{maildir}", "--outbox", "{outbox}", "--state", "{state}"]
    found = tried(*muster("mail"), *places)
    assert not broken_rows(found)
    assert len(found["rows"]) == len(ROWS)


def test_a_bad_plugin_is_found_out() -> None:
    """One that sends again after a kill, ignores 429 and heeds no signal fails those rows."""
    found = tried(sys.executable, str(BAD), "{inbox}", "{outbox}", "{state}", patience=15)
    broken = broken_rows(found)
    # Which of the other kills strikes in mid-send is chance.
    assert {"kill-sent", "kill-result"} <= set(broken)
    assert {row for row in broken if not row.startswith("kill-")} == {
        "post-429",
        "claim-429",
        "result-503",
        "token-dead",
        "offered-twice",
        "stop",
        "stop-busy",
    }
    assert "2 times" in broken["kill-sent"]
    assert "Retry-After was 2 s" in broken["post-429"]
    assert "does not heed SIGTERM" in broken["stop"]


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        ("early", {"post-lost", "post-killed", "post-503"}),
        ("renaming", {"post-lost", "post-killed"}),
        ("stubborn", {"over-size"}),
        ("hasty", {"claim-late"}),
        ("chatty", {"send"}),
        ("liar", {"send"}),
        ("deaf", {"stop"}),
    ],
)
def test_each_fault_is_seen_where_it_is(fault: str, rows: set[str]) -> None:
    """A further fault breaks its own rows, which the same plugin keeps without it."""
    command = (sys.executable, str(BAD), "{inbox}", "{outbox}", "{state}")
    found = tried(*command, fault, rows=tuple(sorted(rows | {"post"})), patience=8)
    assert set(broken_rows(found)) == rows


def test_a_plugin_that_does_nothing_fails_and_the_test_ends() -> None:
    """A program that ends at once breaks a row, with its code and its last words."""
    code = "raise SystemExit('there is no upstream')"
    found = tried(sys.executable, "-c", code, rows=("post", "stop"), patience=8)
    assert set(broken_rows(found)) == {"post", "stop"}
    assert "ended with code 1" in found["rows"][0]["broken"]
    assert "there is no upstream" in found["rows"][0]["last_words"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--row", "no-such-row", "--", "true"], "there is no row no-such-row"),
        (["--", "no-such-program-of-anybody"], "cannot start"),
        ([], "COMMAND"),
    ],
)
def test_what_cannot_be_run_is_told(arguments: list[str], told: str) -> None:
    """A row or a program that does not exist, or none at all, is exit 2 with a sentence."""
    done = subprocess.run(
        [*muster("plugin", "test"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_tester_that_is_stopped_leaves_no_plugin(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Stopped in the middle, the tester ends the plugin, which heeds no signal itself."""
    noted = tmp_path / "pid"
    code = (
        "import os, pathlib, signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f" pathlib.Path({str(noted)!r}).write_text(str(os.getpid())); threading.Event().wait(60)"
    )
    command = [*muster("plugin", "test"), "--row", "post", "--", sys.executable, "-c", code]
    tester = await trio.lowlevel.open_process(command, stderr=subprocess.DEVNULL)
    try:
        await until(lambda: noted.exists() and noted.read_text(), 30)
        tester.send_signal(number)
        with trio.fail_after(30):
            assert await tester.wait() == 130
    finally:
        if tester.returncode is None:
            tester.kill()
    pid = int(noted.read_text())
    await until(lambda: not is_at_work(pid), 5)


def test_what_is_not_sent_yet_does_not_count(tmp_path: Path) -> None:
    """Only files that are neither hidden nor in a folder named tmp are counted as sent."""
    spool = Spool(folder=tmp_path / "spool")
    (spool.outbox / "tmp").mkdir()
    (spool.outbox / "new").mkdir()
    (spool.outbox / "tmp" / "1").write_text("mark")
    (spool.outbox / ".2").write_text("mark")
    assert spool.count("mark") == 0
    (spool.outbox / "new" / "1").write_text("mark and mark")
    (spool.outbox / "2").write_text("mark")
    assert spool.count("mark") == 3


REQUESTS: list[tuple[str, bytes]] = [
    ("messages", b'{"external_id": "m1", "body": "Lunch?"}'),
    ("messages", b'{"external_id": "m1", "body": "Lunch?"}'),
    ("messages", b'{"external_id": "m2"}'),
    ("messages", b'{"external_id": "m 2", "body": "a"}'),
    ("messages", b'{"external_id": "m2", "body": ""}'),
    ("messages", b'{"external_id": "m2", "body": "a", "thread": "a b"}'),
    ("messages", b'{"external_id": "m2", "body": "a", "sender": null}'),
    ("messages", b'{"external_id": "m2", "body": "a", "unknown": 1}'),
    ("messages", b'{"external_id": "m2", "body": "a", "no_reply": "false"}'),
    ("messages", json.dumps({"external_id": "m2", "body": "a" * 16_385}).encode()),
    ("messages", json.dumps({"external_id": "m2", "body": "a", "subject": "s" * 201}).encode()),
    ("messages", b"nonsense"),
    ("messages", b"[]"),
    ("drafts/claim", b""),
    ("drafts/claim", b'{"wait_seconds": 0}'),
    ("drafts/claim", b'{"wait_seconds": -1}'),
    ("drafts/claim", b'{"wait_seconds": true}'),
    ("drafts/claim", b'{"wait_seconds": 0, "more": 1}'),
    ("drafts/1/result", b'{"ok": true}'),
    ("drafts/1/result", b"{}"),
    ("nowhere", b"{}"),
]


async def test_the_fake_answers_as_muster_does(desk: OpenDesk) -> None:
    """Asked the same, the fake and a real server answer with the same status and member names."""
    fake = FakeMuster()
    async with desk() as at, open_http(fake.handle, fake.sent) as port:
        places = ((at.server.url, at.plugin_token), (f"http://127.0.0.1:{port}", fake.token))
        async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
            for path, body in REQUESTS:
                answers = [
                    await client.post(
                        f"{url}/plugin/v1/{path}",
                        content=body,
                        headers={"Authorization": f"Bearer {token}"},
                    )
                    for url, token in places
                ]
                real, faked = answers
                assert faked.status_code == real.status_code, (path, body)
                if real.status_code < 300 and real.content:
                    assert faked.json().keys() == real.json().keys(), (path, body)
            for url, _ in places:
                answer = await client.post(f"{url}/plugin/v1/messages", content=b"{}")
                assert answer.status_code == 401
