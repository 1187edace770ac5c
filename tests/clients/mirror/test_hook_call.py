"""One call of a hook: quick, silent, bounded, and never a fault to the session."""

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muster.clients.mirror import hook_call
from muster.clients.mirror.hook_rules import Doing
from muster.clients.mirror.spool import Kept, Prompt, decode, encode, read_session, spool_folder
from tests.support.waiting import until_blocking

SESSION = "11111111-2222-4333-8444-555555555555"
HEAVY = ("attrs", "attr", "click", "trio", "msgspec", "httpx2", "dataclasses", "pathlib", "asyncio")
CPU_SECONDS_MAX = 0.3
KEPT = Kept(
    session=SESSION,
    tmux_pid=7,
    pane="%1",
    process=1,
    started=2,
    cwd="/w",
    transcript="/w/x",
    doing=Doing(turn="idle"),
    since=1.5,
    at=2.5,
    prompts=(Prompt("00", 1.0),),
)


def environ(folder: Path) -> dict[str, str]:
    """What Claude Code in tmux hands on."""
    return {
        **os.environ,
        "XDG_STATE_HOME": str(folder),
        "TMUX": "/tmp/tmux-1000/default,42,0",
        "TMUX_PANE": "%3",
    }


def call(
    folder: Path, stdin: bytes, event: str = "Stop", **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Call it as a program."""
    return subprocess.run(
        [sys.executable, "-m", "muster", "mirror", "hook", event],
        input=stdin,
        env={**environ(folder), **more},
        capture_output=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"session_id": 7}',
        b'{"session_id": "../x"}',
        b"\xff",
        b"[" * 9999,
    ],
)
@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "Whatever"])
def test_no_input_is_a_fault(tmp_path: Path, stdin: bytes, event: str) -> None:
    """Whatever is on its stdin, a hook says nothing, ends well and leaves nothing."""
    done = call(tmp_path, stdin, event)
    assert (done.returncode, done.stdout) == (0, b"")
    assert list(tmp_path.rglob("*.json")) == []


def test_what_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    """Where the spool can't be made the session goes on."""
    (tmp_path / "muster").write_text("a file")
    done = call(tmp_path, b'{"session_id": "%s"}' % SESSION.encode())
    assert (done.returncode, done.stdout) == (0, b"")


def test_without_tmux_nothing_is_left(tmp_path: Path) -> None:
    """A session outside of tmux has no pane, so nothing is kept of it."""
    for strange in ({"TMUX": ""}, {"TMUX_PANE": "3"}, {"TMUX": "x,y,z"}):
        done = call(tmp_path, b'{"session_id": "%s"}' % SESSION.encode(), **strange)
        assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_hook_loads_nothing_heavy(tmp_path: Path) -> None:
    """A hook takes less than 0.3 s of processor time and loads no library but Python's own few."""
    check = (
        "import sys, os\n"
        "before = set(sys.modules)\n"
        "from muster.commands.mirror_hook import answer\n"
        f"print(sorted(set(sys.modules) & set({HEAVY!r}) - before), flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "[]\n"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call(tmp_path, b'{"session_id": "%s"}' % SESSION.encode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < CPU_SECONDS_MAX


def test_a_hook_without_an_end_of_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stdin that stays open is given up after a while."""
    monkeypatch.setattr(hook_call, "STDIN_SECONDS", 0.05)
    ours, theirs = os.pipe()
    os.write(theirs, b"{")
    try:
        hook_call.leave("Stop", environ={}, stdin=ours)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks that are called here are those of a session at a terminal."""
    monkeypatch.setattr(hook_call, "_session_process", lambda: (os.getpid(), 5))


def leave(folder: Path, event: str, told: bytes) -> Kept | None:
    """Call a hook in this process; what is kept then."""
    ours, theirs = os.pipe()
    try:
        os.write(theirs, told)
        os.close(theirs)
        here = Path.cwd()
        hook_call.leave(event, environ=environ(folder), stdin=ours)
        os.chdir(here)
    finally:
        os.close(ours)
    return read_session(spool_folder(environ(folder)), SESSION)


@pytest.mark.usefixtures("session")
def test_an_event_is_kept(tmp_path: Path) -> None:
    """The session's file says where it is, what it does since when, and which prompts it took."""
    told = b'{"session_id": "%s", "cwd": "/w", "prompt": "Hello"}' % SESSION.encode()
    first = leave(tmp_path, "UserPromptSubmit", told)
    assert first is not None
    assert (first.tmux_pid, first.pane, first.process) == (42, "%3", os.getpid())
    assert (first.doing.state, first.cwd, len(first.prompts)) == ("working", "/w", 1)
    again = leave(tmp_path, "PostToolUse", b'{"session_id": "%s"}' % SESSION.encode())
    assert again is not None
    assert (again.since, again.prompts, again.cwd) == (first.since, first.prompts, "/w")
    assert again.at > first.at
    mode = (Path(spool_folder(environ(tmp_path))) / "sessions" / f"{SESSION}.json").stat().st_mode
    assert mode & 0o777 == 0o600


@pytest.mark.usefixtures("session")
def test_too_much_is_known_by_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event beyond the bound still says that its session works."""
    monkeypatch.setattr(hook_call, "STDIN_BYTES_MAX", 1000)
    told = b'{"session_id":"%s","tool_response":"%s"}' % (SESSION.encode(), b"x" * 5000)
    kept = leave(tmp_path, "PostToolUse", told)
    assert kept is not None
    assert kept.doing.state == "working"


@pytest.mark.usefixtures("session")
def test_the_spool_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new session beyond the bound takes the place of those that were silent longest."""
    monkeypatch.setattr(hook_call, "SESSIONS_MAX", 10)
    folder = Path(spool_folder(environ(tmp_path))) / "sessions"
    folder.mkdir(parents=True)
    for number in range(12):
        old = folder / f"{SESSION[:-2]}{number:02}.json"
        old.write_text("[]")
        os.utime(old, (number, number))
    assert leave(tmp_path, "Stop", b'{"session_id": "%s"}' % SESSION.encode()) is not None
    assert len(list(folder.iterdir())) <= 10


@pytest.mark.usefixtures("session")
def test_listeners_are_told_and_the_gone_forgotten(tmp_path: Path) -> None:
    """Who listens gets the id; a socket that nobody holds any more is taken away."""
    spool = Path(spool_folder(environ(tmp_path)))
    spool.mkdir(parents=True)
    here = Path.cwd()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone,
    ):
        os.chdir(spool)
        try:
            listener.bind("wake-1")
            gone.bind("wake-2")
        finally:
            os.chdir(here)
        gone.close()
        leave(tmp_path, "Stop", b'{"session_id": "%s"}' % SESSION.encode())
        listener.settimeout(5)
        assert listener.recv(100) == SESSION.encode()
    until_blocking(lambda: sorted(each.name for each in spool.glob("wake-*")) == ["wake-1"])


def test_a_file_comes_back_as_it_was() -> None:
    """What is written is read again; what can't be read, or is another session's, is nothing."""
    content = encode(KEPT)
    assert decode(content, SESSION) == KEPT
    assert decode(content, SESSION.replace("1", "2")) is None
    for cut in range(len(content)):
        assert decode(content[:cut], SESSION) is None
    assert decode(b"[2" + content[2:], SESSION) is None
