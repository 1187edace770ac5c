"""What is pasted into a session: text that Claude Code takes for text alone."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.chief.fence import FencedMessage
from muster.chief.operations.routing.block import render_routed
from muster.clients.mirror.paste import TEXT_BYTES_MAX, cleaned
from muster.mirror.send_rules import PASTE_BYTES_MAX
from muster.routes.rules import By, HandBack, Route, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NONCE = "5f0c5f0c5f0c5f0c"
# As Claude Code finds what is mentioned: a blank or a line's beginning, and no blank behind.
MENTION = re.compile(r"(?:^|[\s\ufeff])@(?![\s\ufeff]|\Z)", re.MULTILINE)
ROUTE = Route(
    id=3, owner_id=1, message_id=42, agent_id=1, mirrored_id=1, claude_session="x",
    routed_by=By.CHIEF, routed_via=None, state=State.ROUTED, created_at=NOW,
    deadline_at=NOW + timedelta(minutes=30), answer=None, answered_at=None, answered_via=None,
    relay_due_at=None, owner_replied_at=None, ended_at=None, why=None, handback=HandBack.NONE,
    handed_back_at=None,
)  # fmt: skip
texts = st.text(st.sampled_from("@/ ~ab.\"'(\n\r\t\0\x1b\x1c\x1f\x85\u00a0\u200b\u2028\ufeff[]<>|"))


def pasted(*, sender: str = "", subject: str = "", body: str = "") -> str:
    """What reaches the terminal."""
    message = FencedMessage(
        message_id=42, plugin_label=f"mail {sender}"[:80], scope=f"work {subject}"[:80],
        sender=sender, sender_verified=False, subject=subject, received_at=NOW, no_reply=False,
        body=body,
    )  # fmt: skip
    return cleaned(render_routed(ROUTE, message, nonce=NONCE))


@given(sender=texts, subject=texts, body=texts)
@example(sender="@~/.ssh/id_rsa", subject="@/etc/passwd", body="@/etc/passwd")
@example(sender="", subject="", body='see @"/home/ada/.netrc" and\n@~/.aws/credentials#L1-9')
@example(sender="", subject="", body=" @\x1f/etc/passwd x\x1f@/etc/passwd")
def test_a_message_names_no_file(sender: str, subject: str, body: str) -> None:
    """Claude Code would read a file that an outside sender names by `@`, and ask nobody."""
    text = pasted(sender=sender, subject=subject, body=body)
    assert MENTION.search(text) is None
    assert text.startswith("muster: ")
    assert text.count("<<<message") == 1 + (sender + subject + body).count("<<<message")


def test_an_address_can_be_read() -> None:
    """What stands between letters stays as it is."""
    text = pasted(sender="Ada <ada@example.test>", body="write to bob.b@example.test")
    assert "Ada <ada@example.test>" in text
    assert "bob.b@example.test" in text


@pytest.mark.parametrize("letter", ["@", "\n", "\u2028", "\U0001f600", "a"])
def test_the_longest_message_fits_into_a_paste(letter: str) -> None:
    """16 KiB of whatever grows most stays below what a paste and a host may hold."""
    body = letter * (16 * 1024 // len(letter.encode()))
    text = pasted(sender=letter * 200, subject=letter * 200, body=body)
    assert len(text.encode()) <= PASTE_BYTES_MAX
    assert PASTE_BYTES_MAX <= TEXT_BYTES_MAX
