"""A plugin as one should not be, on the standard library alone: `python bad_plugin.py I O S …`.

It notes a reply before it sends it, and sends whatever it finds noted when it starts. It waits for
nobody's Retry-After, heeds no signal, and does not remember what it sent. Further words make it
worse: `early`, its cursor moves before muster has a message; `renaming`, a repeat gets another id;
`stubborn`, it insists on what was refused; `hasty`, it waits 3 s for any answer; `chatty`, it sends
more than was approved; `liar`, it reports a reply as not sent; `deaf`, it ignores SIGTERM.
"""

import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

INBOX, OUTBOX, STATE = (Path(folder) for folder in sys.argv[1:4])
FAULTS = frozenset(sys.argv[4:])
PAUSE = threading.Event()
TRIES_MAX = 200


def ask(path: str, body: object) -> tuple[int, Any]:
    """One request; 0 when there was no answer."""
    request = urllib.request.Request(
        os.environ["MUSTER_URL"] + path,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['MUSTER_PLUGIN_TOKEN']}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=3 if "hasty" in FAULTS else 40) as answer:
            raw = answer.read()
            return answer.status, json.loads(raw) if raw else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None
    except (OSError, HTTPException):
        return 0, None


def insist(path: str, body: object) -> int:
    """Ask until it is answered, with hardly a pause."""
    for _ in range(TRIES_MAX):
        status, _ = ask(path, body)
        if status not in (0, 401, 429, 503):
            return status
        PAUSE.wait(0.05)
    raise SystemExit("muster does not take it")


def send(draft: dict[str, Any]) -> None:
    """Note it, send it, report it, forget it."""
    noted = STATE / "noted.json"
    noted.write_text(json.dumps(draft))
    with (OUTBOX / "sent.txt").open("a") as file:
        file.write(draft["body"] + ("\n" * 2 + draft["body"]) * ("chatty" in FAULTS) + "\n")
    PAUSE.wait(0.2)
    insist(f"/plugin/v1/drafts/{draft['draft_id']}/result", {"ok": "liar" not in FAULTS})
    noted.unlink()


def bring(path: Path) -> None:
    """Post one message, and move the cursor past it."""
    body = {"external_id": path.name, "body": path.read_text()}
    done = STATE / path.name
    if "early" in FAULTS:
        path.rename(done)
        ask("/plugin/v1/messages", body)
        return
    for number in range(TRIES_MAX):
        if "renaming" in FAULTS:
            body["external_id"] = f"{path.name}-{os.getpid()}-{number}"
            status, _ = ask("/plugin/v1/messages", body)
        else:
            status = insist("/plugin/v1/messages", body)
        if status in (200, 202) or (status == 400 and "stubborn" not in FAULTS):
            break
        PAUSE.wait(0.05)
    path.rename(done)


def main() -> None:
    """Post what is there and send what is approved, for ever."""
    if "deaf" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    noted = STATE / "noted.json"
    if noted.exists():
        send(json.loads(noted.read_text()))
    while True:
        for path in sorted(INBOX.glob("*.txt")):
            bring(path)
        status, draft = ask("/plugin/v1/drafts/claim", {"wait_seconds": 1})
        if status == 200:
            send(draft)


if __name__ == "__main__":
    main()
