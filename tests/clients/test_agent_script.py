"""The script backend: which rule decides, what is drafted, and how a bad script is told."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.chief.fence import FencedMessage, render
from muster.clients.agent import fenced, script
from muster.clients.agent.backend import Tool, ToolAnswer, Turn, TurnError, without_muster


@attrs.define
class Desk:
    """Takes drafts down; refuses those that name a host, as muster would."""

    drafts: list[Mapping[str, object]] = attrs.field(factory=list)

    async def list(self) -> list[Tool]:
        """The one tool."""
        return [Tool(name="reply_draft", description="", input_schema={})]

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """File the draft or refuse it."""
        assert name == "reply_draft"
        if "example.test" in str(arguments["body"]):
            refused = {"error": "names a host", "refused": "host_name"}
            return ToolAnswer(text=json.dumps(refused), is_error=True, structured=refused)
        self.drafts.append(arguments)
        return ToolAnswer(text='{"draft_id":7}', is_error=False, structured={"draft_id": 7})


def turn_with(**changes: Any) -> Turn:
    """A turn as muster lays it out for a message from Ada."""
    message = FencedMessage(
        message_id=42,
        plugin_label="Mail",
        scope="mail",
        sender="Ada <ada@example.test>",
        sender_verified=False,
        subject="Lunch",
        received_at=datetime(2000, 1, 2, 3, 4, 5, tzinfo=UTC),
        no_reply=False,
        body="Is noon fine?\n\nAda",
    )
    text = render(attrs.evolve(message, **changes), nonce="5f0c")
    return Turn(turn_id="message:42:1", text=text, deadline_seconds=60)


async def test_the_fields_of_a_turn_are_read_back() -> None:
    """What muster laid out behind the fence is read back field by field."""
    read = fenced.read(turn_with().text)
    assert read == fenced.Message(
        message_id=42,
        sender="Ada <ada@example.test>",
        verified=False,
        no_reply=False,
        subject="Lunch",
        body="Is noon fine?\n\nAda",
    )
    assert read.sender_name == "Ada"


async def test_what_is_missing_reads_as_empty() -> None:
    """A message without sender and subject reads with both empty."""
    read = fenced.read(turn_with(sender=None, subject=None, sender_verified=True).text)
    assert read is not None
    assert (read.sender, read.subject, read.sender_name, read.verified) == ("", "", "", True)


async def test_no_reply_is_taken_from_muster_alone() -> None:
    """Only muster's own line says that no reply is possible, whatever a body says."""
    words = "No reply to this message is possible"
    claimed = fenced.read(turn_with(body=words, subject=words, sender=f"x\n{words}").text)
    marked = fenced.read(turn_with(no_reply=True).text)
    assert claimed is not None
    assert marked is not None
    assert (claimed.no_reply, marked.no_reply) == (False, True)


@given(
    sender=st.text(min_size=1, max_size=60) | st.sampled_from(["Ada · received 2000\nsubject: x"]),
    subject=st.text(max_size=60),
    body=st.text(min_size=1, max_size=200),
)
@pytest.mark.rule(57)
def test_no_sender_can_make_themselves_verified(sender: str, subject: str, body: str) -> None:
    """Whatever an unproven sender writes, the message reads as unverified and keeps its id."""
    read = fenced.read(turn_with(sender=sender, subject=subject, body=body).text)
    assert read is not None
    assert (read.message_id, read.verified, read.no_reply) == (42, False, False)


def test_text_that_is_no_message_reads_as_none() -> None:
    """An ordinary chat turn holds no message."""
    assert fenced.read("hello\n| [message_id x] from") is None
    assert fenced.read("") is None


RULES = """
[[rule]]
match = { no_reply = true }
nothing = true

[[rule]]
match = { verified = false, text = "(?i)wire the money" }
nothing = true

[[rule]]
match = { sender = "grace@", subject = "^Report$" }
fail = "the printer is on fire"

[[rule]]
match = { subject = "later" }
busy = true

[[rule]]
match = { subject = "host" }
reply = "See desk.example.test"

[[rule]]
match = { text = "noon" }
reply = "Thanks {sender_name}, noon works. Re {subject} ({message_id})"
"""


async def test_the_first_rule_that_matches_decides() -> None:
    """A reply is drafted with its fields filled in; the answer names what muster said."""
    backend, desk, said = script.parse(RULES), Desk(), []

    async def say(text: str) -> None:
        said.append(text)

    answer = await backend.turn(attrs.evolve(turn_with(), say=say), desk)
    assert desk.drafts == [
        {"message_id": 42, "body": "Thanks Ada, noon works. Re Lunch (42)"},
    ]
    assert answer == ("The reply to message 42 is filed as draft 7; it waits for your approval.")
    assert said == ["Rule 6 is for message 42.\n"]


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"no_reply": True}, "Nothing to do for message 42 (rule 1)."),
        ({"body": "WIRE THE MONEY by noon"}, "Nothing to do for message 42 (rule 2)."),
        ({"body": "hello"}, "No rule is for message 42."),
        ({"subject": "host"}, "The reply to message 42 was refused: names a host"),
    ],
)
async def test_what_leaves_no_draft(changes: dict[str, object], answer: str) -> None:
    """A rule that says nothing, no rule at all, and muster's refusal all end as a told answer."""
    desk = Desk()
    assert await script.parse(RULES).turn(turn_with(**changes), desk) == answer
    assert desk.drafts == []


async def test_a_rule_can_fail_the_turn() -> None:
    """Fail raises its own sentence."""
    turn = turn_with(sender="grace@example.test", subject="Report")
    with pytest.raises(TurnError, match="the printer is on fire"):
        await script.parse(RULES).turn(turn, Desk())


def test_a_rule_can_refuse_the_turn() -> None:
    """Busy is decided before the turn begins, for its own messages alone."""
    backend = script.parse(RULES)
    assert not backend.takes(turn_with(subject="later"))
    assert backend.takes(turn_with())
    assert backend.takes(attrs.evolve(turn_with(), text="hello"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rule = 1", "a script holds [[rule]] tables"),
        ("[[rules]]\nnothing = true", "a script holds [[rule]] tables"),
        ("[[rule]\n", "the script is no TOML"),
        ("[[rule]]\nnothing = true\n[[rule]]\nfoo = 1", "rule 2, foo: no such field"),
        ("[[rule]]\nmatch = 1\nnothing = true", "rule 1, match: not a table"),
        ("[[rule]]\nmatch = {body = 'x'}\nnothing = true", "rule 1, match.body: no such condition"),
        ("[[rule]]\nmatch = {text = '('}\nnothing = true", "rule 1, match.text: no regular"),
        ("[[rule]]\nmatch = {text = 1}\nnothing = true", "rule 1, match.text: not a string"),
        ("[[rule]]\nmatch = {no_reply = 1}\nnothing = true", "rule 1, match.no_reply: neither"),
        ("[[rule]]\nmatch = {}", "rule 1: name exactly one of"),
        ("[[rule]]\nnothing = true\nbusy = true", "rule 1: name exactly one of"),
        ("[[rule]]\nnothing = false", "rule 1, nothing: can only be true"),
        ("[[rule]]\nreply = ' '", "rule 1, reply: not a text"),
        ("[[rule]]\nreply = '{body}'", "rule 1, reply: only {message_id}, {sender_name}"),
        ("[[rule]]\nreply = '{subject.__class__}'", "rule 1, reply: only"),
        ("[[rule]]\nreply = '{subject:>99}'", "rule 1, reply: only"),
        ("[[rule]]\nreply = '{'", "rule 1, reply: "),
        ("[[rule]]\nfail = 3", "rule 1, fail: not a text"),
        ("[[rule]]\nnothing = true\nwait_seconds = 601", "rule 1, wait_seconds: not a number"),
        ("[[rule]]\nnothing = true\nwait_seconds = nan", "rule 1, wait_seconds: not a number"),
        ("[[rule]]\nnothing = true\nwait_seconds = true", "rule 1, wait_seconds: not a number"),
        ("[[rule]]\nbusy = true\nwait_seconds = 1", "rule 1, wait_seconds: a busy agent"),
    ],
)
def test_a_bad_script_names_rule_and_field(text: str, told: str) -> None:
    """Each fault is told with the number of its rule and the name of its field."""
    with pytest.raises(script.ScriptError) as caught:
        script.parse(text)
    assert told in str(caught.value)


def test_a_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A missing file and one that is no UTF-8 are faults of the script, not crashes."""
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    for name, why in (("none.toml", "No such file or directory"), ("bad.toml", "it is no text")):
        with pytest.raises(script.ScriptError) as caught:
            script.load(tmp_path / name)
        assert str(caught.value) == f"the script {tmp_path / name} cannot be read: {why}"


def test_a_backend_sees_no_setting_of_musters() -> None:
    """Every variable of muster's is taken out, and no other."""
    environ = {"MUSTER_AGENT_TOKEN": "x", "MUSTER_URL": "y", "PATH": "/bin", "MUSTERD": "z"}
    assert without_muster(environ) == {"PATH": "/bin", "MUSTERD": "z"}
