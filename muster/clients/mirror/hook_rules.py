"""What a session does, told by its hooks: pure, and so light that each hook can judge by itself.

Theory. A session has a main agent, whose turn runs (`working`) or does not (`idle`), and questions
that stand on the screen until a person answers. While one stands, the session is `waiting`; else
it does what its main agent does; `unknown` is what it does until its own hook said so.

    event                            main agent's turn    questions
    SessionStart                     idle                 none         (not after compaction)
    UserPromptSubmit                 working              the main agent's are gone
    PreToolUse                       working              a tool that asks (DIALOGS) is one
    PermissionRequest                working              one more, by its agent, tool and input
    PostToolUse, …Failure, …Denied   working              the one of this call is gone
    Elicitation, ElicitationResult   as it was            one more, gone
    Notification permission_prompt   as it was            one, unless there are some
    Stop                             idle                 the main agent's are gone
    StopFailure                      unknown              one: a person must look
    SubagentStop                     as it was            those of that agent are gone
    PreCompact, PostCompact          working, as before   as they were
    SessionEnd                       ended

An event of a subagent (it has an `agent_id`) says nothing of the main agent's turn, but its
questions stand on the same screen.

What was found out the hard way, or read in Claude Code's manual:
- A turn that a person interrupts ends without a hook, so the session is taken for working until its
  next prompt or Stop. The notice `idle_prompt`, a minute later, is not believed: it also comes
  while a model thinks long (anthropics/claude-code issue 32634).
- `SessionStart` with `source: compact` comes in the middle of a turn.
- Questions can stand side by side (parallel tools, several subagents), so one answered question is
  not the end of waiting. A question that was refused ends the turn without a hook: it stands until
  the next prompt, which only costs patience.
- `StopFailure` (a limit, a lost login) leaves the prompt free, but a text would fail as well.

Rejected: attrs for these records. A hook holds up its session, and attrs takes longer to load than
all the rest of a hook's work.
"""

from typing import Final, NamedTuple

WORKING: Final = "working"
WAITING: Final = "waiting"
IDLE: Final = "idle"
UNKNOWN: Final = "unknown"
ENDED: Final = "ended"

EVENTS: Final = {
    "SessionStart": (1, 0, 85),
    "UserPromptSubmit": (1, 0, 85),
    "PreToolUse": (1, 0, 85),
    "PermissionRequest": (2, 0, 45),
    "PostToolUse": (1, 0, 85),
    "PostToolUseFailure": (2, 1, 17),
    "PermissionDenied": (2, 1, 89),
    "Elicitation": (2, 1, 76),
    "ElicitationResult": (2, 1, 76),
    "Notification": (1, 0, 85),
    "Stop": (1, 0, 85),
    "StopFailure": (2, 1, 78),
    "SubagentStop": (1, 0, 85),
    "PreCompact": (1, 0, 85),
    "PostCompact": (2, 1, 76),
    "SessionEnd": (1, 0, 85),
}
"""Every event that changes something, with the first version of Claude Code that surely knows it.

It matters: a version leaves out a whole settings file for one event that it does not know.
"""

OLDEST: Final = (1, 0, 85)

DIALOGS: Final = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""Tools that are a question themselves, so they wait for a person from their beginning."""

QUESTIONS_MAX: Final = 32
"""How many questions of one session are told apart; of more, the oldest are taken as answered."""

_TURNS: Final = {"UserPromptSubmit": WORKING, "Stop": IDLE, "StopFailure": UNKNOWN}
_OF_A_TURN: Final = frozenset(
    {"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PermissionDenied"}
)
_NOTICE: Final = "notice"
_FAILURE: Final = "failure"


class Question(NamedTuple):
    """Something that waits for a person: `agent` is empty for the main agent."""

    agent: str
    key: str


class Heard(NamedTuple):
    """A hook's event, as far as it says what the session does.

    `kind` is the event's own sort of it (source, notification_type, trigger), `call` tells one tool
    call from another; both are empty where the event has none.
    """

    event: str
    agent: str = ""
    kind: str = ""
    tool: str = ""
    call: str = ""


class Doing(NamedTuple):
    """What a session does, and what must be known to judge the next event."""

    turn: str = UNKNOWN
    questions: tuple[Question, ...] = ()
    before_compaction: str = ""
    ended: bool = False

    @property
    def state(self) -> str:
        """Working, waiting, idle, unknown or ended."""
        if self.ended:
            return ENDED
        return WAITING if self.questions else self.turn


def hear(doing: Doing, heard: Heard) -> Doing:
    """What the session does after an event; the same as before for one that says nothing of it."""
    if heard.event == "SessionStart" and heard.kind != "compact":
        return Doing(turn=IDLE)
    if heard.event == "SessionEnd":
        return doing._replace(ended=True)
    if heard.event == "UserPromptSubmit":
        # Nothing else brings an ended session back: hooks that ran beside its end may come late.
        doing = doing._replace(ended=False)
    if heard.agent or heard.event == "SubagentStop":
        return _hear_subagent(doing, heard)
    if heard.event in _TURNS:
        return _hear_turn(doing, heard)
    if heard.event in ("SessionStart", "PreCompact", "PostCompact"):
        return _hear_compaction(doing, heard)
    if heard.event == "Notification":
        return _noticed(doing, heard.kind)
    after = _hear_tool(doing, heard)
    return after._replace(turn=WORKING) if heard.event in _OF_A_TURN else after


def _hear_turn(doing: Doing, heard: Heard) -> Doing:
    after = _answered(doing, agent="")._replace(turn=_TURNS[heard.event], before_compaction="")
    return _asked(after, "", _FAILURE) if heard.event == "StopFailure" else after


def _hear_compaction(doing: Doing, heard: Heard) -> Doing:
    if heard.event == "PreCompact":
        return doing._replace(turn=WORKING, before_compaction=doing.before_compaction or doing.turn)
    return doing._replace(turn=doing.before_compaction or doing.turn, before_compaction="")


def _hear_subagent(doing: Doing, heard: Heard) -> Doing:
    if heard.event in ("SubagentStop", "Stop"):
        return _answered(doing, agent=heard.agent) if heard.agent else doing
    return _hear_tool(doing, heard)


def _hear_tool(doing: Doing, heard: Heard) -> Doing:
    # A tool that asks is known by its name: its input is another one once it was answered.
    key = f"tool {heard.tool}" if heard.tool in DIALOGS else f"call {heard.call}"
    going_on = _without(doing, Question("", _NOTICE), Question("", _FAILURE))
    match heard.event:
        case "PreToolUse":
            return _asked(going_on, heard.agent, key) if heard.tool in DIALOGS else going_on
        case "PermissionRequest":
            return _asked(going_on, heard.agent, key)
        case "PostToolUse" | "PostToolUseFailure" | "PermissionDenied":
            return _without(going_on, Question(heard.agent, key))
        case "Elicitation":
            return _asked(doing, heard.agent, "elicitation")
        case "ElicitationResult":
            return _without(doing, Question(heard.agent, "elicitation"))
        case _:
            return doing


def _noticed(doing: Doing, kind: str) -> Doing:
    if doing.questions:
        return doing
    if kind in ("permission_prompt", "elicitation_dialog"):
        return _asked(doing, "", _NOTICE)
    return doing


def _asked(doing: Doing, agent: str, key: str) -> Doing:
    asked = Question(agent, key)
    if asked in doing.questions:
        return doing
    return doing._replace(questions=(*doing.questions, asked)[-QUESTIONS_MAX:])


def _answered(doing: Doing, *, agent: str) -> Doing:
    """All questions of one agent are gone."""
    return doing._replace(questions=tuple(each for each in doing.questions if each.agent != agent))


def _without(doing: Doing, *gone: Question) -> Doing:
    return doing._replace(questions=tuple(each for each in doing.questions if each not in gone))
