"""What a session does, by its hooks: a row for each event, and what holds for any order of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.clients.mirror.hook_rules import (
    DIALOGS,
    ENDED,
    EVENTS,
    IDLE,
    QUESTIONS_MAX,
    UNKNOWN,
    WAITING,
    WORKING,
    Doing,
    Heard,
    Question,
    hear,
)

ASKED = Doing(turn=WORKING, questions=(Question("", "call c1"),))
ASKED_BY_SUB = Doing(turn=IDLE, questions=(Question("a1", "call c1"),))

# (what it did, the event, what it does).
TABLE = [
    (Doing(), Heard("SessionStart", kind="startup"), IDLE),
    (Doing(), Heard("SessionStart", kind="resume"), IDLE),
    (ASKED, Heard("SessionStart", kind="clear"), IDLE),
    (Doing(turn=WORKING), Heard("SessionStart", kind="compact"), WORKING),
    (Doing(), Heard("SessionStart", kind="compact"), UNKNOWN),
    (Doing(), Heard("UserPromptSubmit"), WORKING),
    (Doing(turn=IDLE), Heard("UserPromptSubmit"), WORKING),
    (ASKED, Heard("UserPromptSubmit"), WORKING),
    (Doing(turn=IDLE), Heard("PreToolUse", tool="Bash", call="c1"), WORKING),
    (Doing(turn=WORKING), Heard("PreToolUse", tool="AskUserQuestion"), WAITING),
    (Doing(turn=WORKING), Heard("PermissionRequest", tool="Bash", call="c1"), WAITING),
    (ASKED, Heard("PostToolUse", tool="Bash", call="c1"), WORKING),
    (ASKED, Heard("PostToolUseFailure", tool="Bash", call="c1"), WORKING),
    (ASKED, Heard("PermissionDenied", tool="Bash", call="c1"), WORKING),
    (ASKED, Heard("PostToolUse", tool="Bash", call="c2"), WAITING),
    (ASKED, Heard("Notification", kind="idle_prompt"), WAITING),
    (ASKED, Heard("Stop"), IDLE),
    (Doing(turn=WORKING), Heard("Stop"), IDLE),
    (Doing(), Heard("Stop"), IDLE),
    (Doing(turn=WORKING), Heard("Stop", agent="a1"), WORKING),
    (Doing(turn=WORKING), Heard("SubagentStop"), WORKING),
    (Doing(turn=WORKING), Heard("SubagentStop", agent="a1"), WORKING),
    (Doing(turn=WORKING), Heard("StopFailure"), WAITING),
    (Doing(turn=WORKING), Heard("Notification", kind="permission_prompt"), WAITING),
    (Doing(turn=WORKING), Heard("Notification", kind="elicitation_dialog"), WAITING),
    (Doing(turn=WORKING), Heard("Notification", kind="auth_success"), WORKING),
    (Doing(turn=WORKING), Heard("Notification", kind="idle_prompt"), WORKING),
    (Doing(turn=WORKING), Heard("Elicitation"), WAITING),
    (Doing(turn=IDLE), Heard("PreCompact", kind="manual"), WORKING),
    (Doing(turn=IDLE), Heard("PreToolUse", agent="a1", tool="Bash", call="c1"), IDLE),
    (Doing(turn=IDLE), Heard("PermissionRequest", agent="a1", tool="Bash", call="c1"), WAITING),
    (ASKED_BY_SUB, Heard("PostToolUse", agent="a1", tool="Bash", call="c1"), IDLE),
    (ASKED_BY_SUB, Heard("PostToolUse", agent="a2", tool="Bash", call="c1"), WAITING),
    (ASKED_BY_SUB, Heard("Stop"), WAITING),
    (ASKED_BY_SUB, Heard("UserPromptSubmit"), WAITING),
    (ASKED_BY_SUB, Heard("SubagentStop", agent="a1"), IDLE),
    (Doing(turn=IDLE), Heard("SessionEnd", kind="logout"), ENDED),
    (Doing(turn=IDLE, ended=True), Heard("PostToolUse", tool="Bash", call="c1"), ENDED),
    (Doing(turn=IDLE, ended=True), Heard("SessionStart", kind="resume"), IDLE),
    (Doing(turn=WORKING, ended=True), Heard("UserPromptSubmit"), WORKING),
    (Doing(turn=WORKING), Heard("CwdChanged"), WORKING),
]

TOOLS = st.sampled_from(["Bash", *sorted(DIALOGS)])
HEARD = st.builds(
    Heard,
    event=st.sampled_from([*EVENTS, "CwdChanged"]),
    agent=st.sampled_from(["", "", "a1", "a2"]),
    kind=st.sampled_from(["", "startup", "compact", "idle_prompt", "permission_prompt"]),
    tool=TOOLS,
    call=st.sampled_from(["c1", "c2", "c3"]),
)
HISTORY = st.lists(HEARD, max_size=60)


def after(history: list[Heard]) -> Doing:
    """What a session does after all that."""
    doing = Doing()
    for heard in history:
        doing = hear(doing, heard)
    return doing


@pytest.mark.parametrize(("before", "heard", "state"), TABLE)
def test_each_event_is_judged(before: Doing, heard: Heard, state: str) -> None:
    """A session does what the table in the module says after each event."""
    assert hear(before, heard).state == state


def test_every_event_stands_in_the_table() -> None:
    """No event that is asked for is left untested."""
    assert {*EVENTS} - {"ElicitationResult", "PostCompact"} <= {
        heard.event for _, heard, _ in TABLE
    }


def test_compaction_goes_back_to_what_was() -> None:
    """After a compaction the session does what it did before, however its end was told."""
    for turn in (IDLE, WORKING, UNKNOWN):
        begun = hear(Doing(turn=turn), Heard("PreCompact"))
        assert begun.state == WORKING
        for end in (Heard("PostCompact"), Heard("SessionStart", kind="compact")):
            ended = hear(begun, end)
            assert ended.state == turn
            assert hear(ended, end).state == turn


def test_a_question_of_a_tool_ends_with_another_input() -> None:
    """A tool that asks is done when it is done, though its input now holds the answers."""
    asked = after([Heard("PreToolUse", tool="AskUserQuestion", call="c1")])
    assert asked.state == WAITING
    asked = hear(asked, Heard("PermissionRequest", tool="AskUserQuestion", call="c1"))
    assert hear(asked, Heard("PostToolUse", tool="AskUserQuestion", call="c2")).state == WORKING


def test_an_elicitation_is_waited_for() -> None:
    """A server's question is one until its result, and a notice of it adds none."""
    history = [Heard("Elicitation"), Heard("Notification", kind="elicitation_dialog")]
    assert after(history).state == WAITING
    assert after([*history, Heard("ElicitationResult")]).state == UNKNOWN


@settings(deadline=None)
@given(HISTORY)
def test_nothing_is_idle_that_did_not_say_so(history: list[Heard]) -> None:
    """A session is idle only after its own start or the end of a turn.

    Since then no prompt came, and no tool of the main agent ran.
    """
    if after(history).state != IDLE:
        return
    mine = [
        heard
        for heard in history
        if not heard.agent or heard.event in ("SessionStart", "SessionEnd")
    ]
    said = [
        index
        for index, heard in enumerate(mine)
        if heard.event == "Stop" or (heard.event == "SessionStart" and heard.kind != "compact")
    ]
    assert said
    later = {heard.event for heard in mine[said[-1] + 1 :]}
    assert not later & {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PermissionRequest"}


@settings(deadline=None)
@given(HISTORY, HEARD)
def test_a_permission_prompt_is_never_idle(history: list[Heard], request_of: Heard) -> None:
    """Right after a permission request a living session waits, whatever it did."""
    before = after(history)
    doing = hear(before, request_of._replace(event="PermissionRequest"))
    assert doing.state == (ENDED if before.ended else WAITING)


@settings(deadline=None)
@given(HISTORY)
def test_a_session_is_bounded(history: list[Heard]) -> None:
    """It keeps a bounded number of questions, none of them twice, and events decide alone."""
    doing = after(history)
    assert len(set(doing.questions)) == len(doing.questions) <= QUESTIONS_MAX
    assert after(history) == doing


def test_many_questions_keep_the_newest() -> None:
    """Beyond the bound it is the oldest question that is given up."""
    many = [Heard("PermissionRequest", tool="Bash", call=f"c{n}") for n in range(QUESTIONS_MAX + 1)]
    questions = after(many).questions
    assert len(questions) == QUESTIONS_MAX
    assert questions[-1] == Question("", f"call c{QUESTIONS_MAX}")
