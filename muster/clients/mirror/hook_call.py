"""One hook of Claude Code: reads its event, writes what is known of the session, wakes who listens.

It runs at each step of each session and holds it up, so it is bounded in all: stdin in size and
time, the lock in time, the spool in files. An event that can't be read, or that is not of a
session at a terminal in tmux, leaves nothing.

Which process is the session: the nearest one above this one that is no shell. Its stdin must be a
terminal, so that a `claude -p`, which another session started in the same pane, is none.
"""

import fcntl
import json
import os
import re
import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from muster.clients.mirror import hook_rules
from muster.clients.mirror.hook_rules import Doing, Heard
from muster.clients.mirror.spool import (
    LOCK,
    PANE,
    PROMPTS_MAX,
    SESSION_ID,
    SESSIONS,
    WAKE,
    Kept,
    Prompt,
    as_members,
    digest_of,
    encode,
    process_stat,
    read_session,
    session_path,
    spool_folder,
    wake_names,
)

STDIN_BYTES_MAX: Final = 32 << 20
STDIN_SECONDS: Final = 2.0
LOCK_SECONDS: Final = 0.2
SESSIONS_MAX: Final = 2000
"""So many files are kept; beyond, those that were silent longest make room for a new session."""

LISTENERS_MAX: Final = 8
_SHELLS: Final = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "timeout"}
)
_ANCESTORS_MAX: Final = 6
_KINDS: Final = ("source", "notification_type", "trigger", "reason")


def leave(event: str, *, environ: Mapping[str, str], stdin: int) -> None:
    """Take in one event; raises OSError or ValueError when that is not possible."""
    at = time.time()
    place = _place(environ)
    told = _read(stdin)
    session = told.get("session_id")
    if place is None or not isinstance(session, str):
        return
    session = session.lower()
    process = _session_process()
    if process is None or not SESSION_ID.fullmatch(session):
        return
    spool = spool_folder(environ)
    os.makedirs(f"{spool}/{SESSIONS}", mode=0o700, exist_ok=True)  # noqa: PTH103 - quick to load
    with _one_at_a_time(spool):
        before = read_session(spool, session)
        _write(
            spool, _after(before, event, told, session=session, place=place, process=process, at=at)
        )
    if before is None:
        _bound(spool)
    _wake(spool, session)


def _after(
    before: Kept | None,
    event: str,
    told: Mapping[str, Any],
    *,
    session: str,
    place: tuple[int, str],
    process: tuple[int, int],
    at: float,
) -> Kept:
    same = before is not None and (before.process, before.started) == process
    # Another process begins without questions: whatever stood on the screen of the old one is gone.
    was = before.doing if before is not None and same else Doing()
    doing = hook_rules.hear(was, _heard(event, told))
    prompts = before.prompts if before is not None else ()
    prompt = told.get("prompt")
    if event == "UserPromptSubmit" and isinstance(prompt, str):
        prompts = (*prompts, Prompt(digest_of(prompt), at))[-PROMPTS_MAX:]
    changed = before is None or not same or doing.state != before.doing.state
    return Kept(
        session=session,
        tmux_pid=place[0],
        pane=place[1],
        process=process[0],
        started=process[1],
        cwd=_text(told, "cwd") or (before.cwd if before else ""),
        transcript=_text(told, "transcript_path") or (before.transcript if before else ""),
        doing=doing,
        since=at if changed or before is None else before.since,
        at=at,
        prompts=prompts,
    )


def _heard(event: str, told: Mapping[str, Any]) -> Heard:
    kind = next((told[name] for name in _KINDS if isinstance(told.get(name), str)), "")
    return Heard(
        event=event,
        agent=_text(told, "agent_id")[:100],
        kind=kind,
        tool=_text(told, "tool_name")[:200],
        call=_call(told),
    )


def _call(told: Mapping[str, Any]) -> str:
    """What tells one call of a tool from another: a permission request has no id of its call."""
    if "tool_name" not in told:
        return ""
    given = json.dumps(told.get("tool_input"), sort_keys=True)
    return digest_of(f"{told['tool_name']} {given}")[:16]


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    return value[:4096] if isinstance(value, str) else ""


def _place(environ: Mapping[str, str]) -> tuple[int, str] | None:
    """The process id of the tmux server and the pane, by TMUX and TMUX_PANE."""
    pane = environ.get("TMUX_PANE", "")
    parts = environ.get("TMUX", "").rsplit(",", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or not PANE.fullmatch(pane):
        return None
    return int(parts[1]), pane


def _session_process() -> tuple[int, int] | None:
    process = os.getppid()
    for _ in range(_ANCESTORS_MAX):
        stat = process_stat(process)
        if process <= 1 or stat is None:
            return None
        if _name(process) not in _SHELLS:
            terminal = os.readlink(f"/proc/{process}/fd/0").startswith("/dev/pts/")  # noqa: PTH115
            return (process, int(stat[19])) if terminal else None
        process = int(stat[1])
    return None


def _name(process: int) -> str:
    with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read(64).strip()


def _read(stdin: int) -> dict[str, Any]:
    """The members of the event; none when stdin is a terminal, or has no end in time."""
    if os.isatty(stdin):
        return {}
    read = bytearray()
    deadline = time.monotonic() + STDIN_SECONDS
    while len(read) <= STDIN_BYTES_MAX:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stdin], [], [], left)[0]:
            return {}
        some = os.read(stdin, 1 << 20)
        if not some:
            return as_members(json.loads(read))
        read += some
    # Too much for any event that matters but one: its session lives and works on a tool.
    named = re.search(rb'"session_id":\s*"([0-9a-fA-F-]{36})"', read[:65536])
    return {"session_id": named[1].decode()} if named else {}


@contextmanager
def _one_at_a_time(spool: str) -> Iterator[None]:
    """Hold the lock; go without it when somebody keeps it: better a race than a lost event."""
    lock = os.open(f"{spool}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= deadline:
                break
            select.select([], [], [], 0.002)
        yield
    finally:
        os.close(lock)


def _write(spool: str, kept: Kept) -> None:
    path = session_path(spool, kept.session)
    new = f"{path}.{os.getpid()}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, encode(kept))
    finally:
        os.close(file)
    os.replace(new, path)  # noqa: PTH105 - quick to load


def _bound(spool: str) -> None:
    folder = f"{spool}/{SESSIONS}"
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    if len(names) <= SESSIONS_MAX:
        return
    ages = []
    for name in names:
        with suppress(FileNotFoundError):
            ages.append((os.stat(f"{folder}/{name}").st_mtime, name))  # noqa: PTH116
    for _, name in sorted(ages)[: len(ages) - SESSIONS_MAX + SESSIONS_MAX // 10]:
        with suppress(FileNotFoundError):
            os.unlink(f"{folder}/{name}")  # noqa: PTH108


def _wake(spool: str, session: str) -> None:
    # A socket's path may be too long for its address, a name in this folder is not.
    os.chdir(spool)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as wake:
        for name in sorted(wake_names("."))[:LISTENERS_MAX]:
            try:
                wake.sendto(session.encode(), name)
            except ConnectionRefusedError:
                # Its program is gone, and its name would be in the way for ever.
                if name.startswith(WAKE):
                    os.unlink(name)  # noqa: PTH108
            except OSError:
                # Full or gone: whoever listens there looks at all files before it matters.
                continue
