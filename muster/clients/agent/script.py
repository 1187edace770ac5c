"""The backend that needs no model: rules in a TOML file, the first that matches decides.

    [[rule]]
    match = { no_reply = true }
    nothing = true

    [[rule]]
    match = { sender = "(?i)ada", subject = "(?i)lunch", text = "noon" }
    reply = "Thanks {sender_name}, noon works."

`match` may name `sender`, `subject` and `text` (the body), each a regular expression looked for
anywhere, and `no_reply` and `verified`, each true or false; all that are named must hold, and none
named matches everything. The action is one of `reply` (a text in which {sender_name}, {subject} and
{message_id} are filled in), `nothing`, `fail` (a sentence) and `busy`. `wait_seconds` (0 to 600)
makes it wait before it acts.
"""

import re
import string
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

from muster.clients.agent import fenced
from muster.clients.agent.backend import Backend, ToolAnswer, Tools, Turn, TurnError
from muster.clients.reasons import why_unread

WAIT_SECONDS_MAX = 600.0
RULES_MAX = 1_000
PATTERNS = ("sender", "subject", "text")
MARKS = ("no_reply", "verified")
FILLED_IN = frozenset({"sender_name", "subject", "message_id"})


class ScriptError(Exception):
    """The script cannot be used; the text names the rule (counted from 1) and the field."""


@attrs.frozen(kw_only=True)
class Reply:
    """Draft a reply from this text."""

    template: str


@attrs.frozen(kw_only=True)
class Nothing:
    """Read the message and leave it at that."""


@attrs.frozen(kw_only=True)
class Fail:
    """End the turn as failed."""

    error: str


@attrs.frozen(kw_only=True)
class Busy:
    """Do not take the turn."""


Action = Reply | Nothing | Fail | Busy


@attrs.frozen(kw_only=True)
class Rule:
    """One rule: every pattern and mark named must hold."""

    number: int
    patterns: Mapping[str, re.Pattern[str]]
    marks: Mapping[str, bool]
    action: Action
    wait_seconds: float

    def matches(self, message: fenced.Message) -> bool:
        """Whether this rule is for `message`."""
        texts = {"sender": message.sender, "subject": message.subject, "text": message.body}
        marks = {"no_reply": message.no_reply, "verified": message.verified}
        return all(pattern.search(texts[name]) for name, pattern in self.patterns.items()) and all(
            marks[name] is wanted for name, wanted in self.marks.items()
        )


@attrs.frozen(kw_only=True)
class ScriptBackend(Backend):
    """Answers each turn as the first matching rule says."""

    rules: tuple[Rule, ...]

    def takes(self, turn: Turn) -> bool:
        """False where the rule for this turn is `busy`."""
        _, rule = self._find(turn)
        return rule is None or not isinstance(rule.action, Busy)

    async def turn(self, turn: Turn, tools: Tools) -> str:
        """Carry the rule out; a reply that muster refuses is told, not tried again."""
        message, rule = self._find(turn)
        if message is None:
            return "I follow a script of rules for messages, and cannot talk."
        if rule is None:
            return f"No rule is for message {message.message_id}."
        await turn.say(f"Rule {rule.number} is for message {message.message_id}.\n")
        await trio.sleep(rule.wait_seconds)
        match rule.action:
            case Reply(template=template):
                return await _draft(tools, message, template)
            case Fail(error=error):
                raise TurnError(error)
            case Nothing() | Busy():
                return f"Nothing to do for message {message.message_id} (rule {rule.number})."

    def _find(self, turn: Turn) -> tuple[fenced.Message | None, Rule | None]:
        message = fenced.read(turn.text)
        if message is None:
            return None, None
        return message, next((rule for rule in self.rules if rule.matches(message)), None)


async def _draft(tools: Tools, message: fenced.Message, template: str) -> str:
    body = template.format_map(
        {
            "sender_name": message.sender_name,
            "subject": message.subject,
            "message_id": message.message_id,
        }
    )
    answer = await tools.call("reply_draft", {"message_id": message.message_id, "body": body})
    return f"The reply to message {message.message_id} {_outcome(answer)}"


def _outcome(answer: ToolAnswer) -> str:
    """What muster said of the draft: a person reads this in the conversation."""
    told = answer.structured or {}
    if answer.is_error:
        return f"was refused: {told.get('error') or answer.text}"
    if "draft_id" not in told:
        return f"is filed: {answer.text}"
    return f"is filed as draft {told['draft_id']}; it waits for your approval."


def load(path: Path) -> ScriptBackend:
    """Read a script; ScriptError says what is wrong, where."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"the script {path} cannot be read: {why_unread(error)}") from error


def parse(text: str) -> ScriptBackend:
    """Read a script's text; ScriptError says what is wrong, where."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScriptError(f"the script is no TOML: {error}") from error
    rules = document.get("rule")
    if set(document) != {"rule"} or not isinstance(rules, list) or len(rules) > RULES_MAX:
        raise ScriptError(f"a script holds [[rule]] tables, 1 to {RULES_MAX}, and nothing else")
    return ScriptBackend(rules=tuple(_rule(at, each) for at, each in enumerate(rules, start=1)))


def _rule(number: int, table: Any) -> Rule:
    if not isinstance(table, dict):
        raise ScriptError(f"rule {number}: not a table")
    unknown = set(table) - {"match", "wait_seconds", "reply", "nothing", "fail", "busy"}
    if unknown:
        raise ScriptError(f"rule {number}, {min(unknown)}: no such field")
    match = table.get("match", {})
    if not isinstance(match, dict):
        raise ScriptError(f"rule {number}, match: not a table")
    unknown = set(match) - {*PATTERNS, *MARKS}
    if unknown:
        raise ScriptError(f"rule {number}, match.{min(unknown)}: no such condition")
    action = _action(number, table)
    wait = table.get("wait_seconds", 0)
    if (
        isinstance(wait, bool)
        or not isinstance(wait, int | float)
        or not 0 <= wait <= WAIT_SECONDS_MAX
    ):
        raise ScriptError(f"rule {number}, wait_seconds: not a number of 0 to {WAIT_SECONDS_MAX:g}")
    if wait and isinstance(action, Busy):
        raise ScriptError(f"rule {number}, wait_seconds: a busy agent does not wait")
    return Rule(
        number=number,
        patterns={name: _pattern(number, name, match[name]) for name in PATTERNS if name in match},
        marks={name: _mark(number, name, match[name]) for name in MARKS if name in match},
        action=action,
        wait_seconds=float(wait),
    )


def _pattern(number: int, name: str, value: Any) -> re.Pattern[str]:
    if not isinstance(value, str):
        raise ScriptError(f"rule {number}, match.{name}: not a string")
    try:
        return re.compile(value)
    except re.error as error:
        raise ScriptError(f"rule {number}, match.{name}: no regular expression: {error}") from error


def _mark(number: int, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ScriptError(f"rule {number}, match.{name}: neither true nor false")
    return value


def _action(number: int, table: Mapping[str, Any]) -> Action:
    named = [name for name in ("reply", "nothing", "fail", "busy") if name in table]
    if len(named) != 1:
        raise ScriptError(f"rule {number}: name exactly one of reply, nothing, fail, busy")
    name, value = named[0], table[named[0]]
    if name in {"reply", "fail"}:
        if not isinstance(value, str) or not value.strip():
            raise ScriptError(f"rule {number}, {name}: not a text")
        return _reply(number, value) if name == "reply" else Fail(error=value)
    if value is not True:
        raise ScriptError(f"rule {number}, {name}: can only be true")
    return Nothing() if name == "nothing" else Busy()


def _reply(number: int, template: str) -> Reply:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ScriptError(f"rule {number}, reply: {error}") from error
    for _text, name, form, conversion in parts:
        # Names alone: `{subject.__class__}` or `{subject:>9999999}` is no text to fill in.
        if name is not None and (name not in FILLED_IN or form or conversion):
            known = ", ".join(f"{{{each}}}" for each in sorted(FILLED_IN))
            raise ScriptError(
                f"rule {number}, reply: only {known} can be filled in, not {{{name}}}"
            )
    return Reply(template=template)
