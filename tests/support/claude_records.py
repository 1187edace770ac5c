"""What the stand-in of Claude Code writes and calls: its transcript, its ledger, its hooks."""

import json
import os
import queue
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

VERSION = "2.1.200"
EVENTS_MAX = 1000
# Fields that an event's matcher is compared with; the others have none.
MATCHED = {
    "PreToolUse": "tool_name",
    "PostToolUse": "tool_name",
    "PermissionRequest": "tool_name",
    "Notification": "notification_type",
    "SessionStart": "source",
    "SessionEnd": "reason",
}


def slug(folder: str) -> str:
    """The name under which Claude Code files the sessions of a folder."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


class Records:
    """The transcript and the ledger of one session."""

    def __init__(self, home: Path, folder: Path, session_id: str) -> None:
        self.session_id = session_id
        self.cwd = str(Path.cwd())
        self.transcript = home / ".claude" / "projects" / slug(self.cwd) / f"{session_id}.jsonl"
        self.ledger = folder / f"{session_id}.jsonl"
        self.state = "starting"
        self._parent: str | None = None

    def note(self, what: str, **members: Any) -> None:
        """Write a line of the ledger, in one write."""
        line = {"at": time.time(), "mono": time.monotonic(), "state": self.state, "what": what}
        self._append(self.ledger, {**line, **members})

    def say(self, kind: str, content: Any, **members: Any) -> None:
        """Write a user's or the assistant's record of the transcript."""
        unique = str(uuid.uuid4())
        message = {"role": kind, "content": content}
        record = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": VERSION,
            "gitBranch": "",
            "type": kind,
            "message": message,
            "uuid": unique,
            "timestamp": stamp(),
        }
        self.write({**record, **members})
        self._parent = unique

    def write(self, record: dict[str, Any]) -> None:
        """Write a line of the transcript; a summary names the newest record if it names none."""
        if record.get("type") == "summary":
            record.setdefault("leafUuid", self._parent)
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self._append(self.transcript, record)

    @staticmethod
    def _append(path: Path, record: dict[str, Any]) -> None:
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
        with path.open("ab", buffering=0) as file:
            file.write(line.encode(errors="surrogateescape") + b"\n")


def stamp() -> str:
    """The time as transcripts have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Hooks:
    """Calls the hooks, one event after the other, in a thread of its own."""

    def __init__(self, home: Path, records: Records, wake: Callable[[], None]) -> None:
        self.settings = (
            home / ".claude" / "settings.json",
            Path.cwd() / ".claude" / "settings.json",
        )
        self.records = records
        self.wake = wake
        self.finished: queue.Queue[Callable[[], None]] = queue.Queue(EVENTS_MAX)
        self._events: queue.Queue[tuple[dict[str, Any], Callable[[bool], None]] | None]
        self._events = queue.Queue(EVENTS_MAX)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def call(
        self, event: str, then: Callable[[bool], None] = lambda _: None, **members: Any
    ) -> None:
        """Call the hooks of an event; `then` runs in the main loop, told whether one refused."""
        told = {
            "session_id": self.records.session_id,
            "transcript_path": str(self.records.transcript),
            "cwd": self.records.cwd,
            "permission_mode": "default",
            "hook_event_name": event,
            **members,
        }
        if event in ("SessionStart", "SessionEnd", "Notification"):
            del told["permission_mode"]
        self._events.put((told, then))

    def finish(self) -> None:
        """Wait for what was called, a while."""
        self._events.put(None)
        self._thread.join(timeout=10)

    def _work(self) -> None:
        while (each := self._events.get()) is not None:
            told, then = each
            refused = self._run(told)
            self.finished.put(partial(then, refused))
            self.wake()

    def _run(self, told: dict[str, Any]) -> bool:
        event = told["hook_event_name"]
        began = time.monotonic()
        given = json.dumps(told).encode(errors="surrogateescape")
        running = [
            subprocess.Popen(
                command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "CLAUDE_PROJECT_DIR": self.records.cwd, "CLAUDECODE": "1"},
                # The program reads the end of a closed terminal a moment before the kernel's
                # SIGHUP to the foreground group, which would end the hooks that it calls for it.
                start_new_session=True,
            )
            for command in self._commands(event, told)
        ]
        out = [child.communicate(given)[0].decode(errors="replace") for child in running]
        codes = [child.returncode for child in running]
        seconds = time.monotonic() - began
        self.records.note("hook", event=event, seconds=seconds, codes=codes, out=out)
        return 2 in codes

    def _commands(self, event: str, told: dict[str, Any]) -> list[str]:
        commands: dict[str, None] = {}
        for path in self.settings:
            try:
                settings = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            for group in settings.get("hooks", {}).get(event, []):
                matcher = group.get("matcher", "")
                subject = str(told.get(MATCHED.get(event, ""), ""))
                if matcher in ("", "*") or re.fullmatch(matcher, subject):
                    commands.update((hook["command"], None) for hook in group["hooks"])
        return list(commands)
