"""The members of MCP's results, whatever the door: tools as they are listed, and a call's end.

A refusal is a failed call (`isError`) whose text and structure are `{"error", "refused", …}`, so
that a model can read what to change. Arguments are decoded strictly, as bodies are.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from actors import Event
from muster.errors import MusterError
from muster.node.node import Node
from web.bodies import explain
from web.errors import sentence_of

Members = dict[str, object]
Arguments = TypeVar("Arguments", bound=msgspec.Struct)


class ToolsBroke(Exception):
    """A list or a call ended with no result; `sentence` is what the caller is told."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@contextmanager
def contained(node: Node, where: str) -> Iterator[None]:
    """Let nothing but words of ours out of a handler; what crashed it becomes a report.

    The library would tell the caller the text of any exception, with the SQL that it quotes.
    """
    try:
        yield
    except MusterError as refusal:
        raise ToolsBroke(sentence_of(refusal)) from refusal
    except Exception as crash:  # a tool call is a child task, as a request is
        node.log.report(f"root/web/{where}", Event.CRASHED, reason="crash", error=crash)
        raise ToolsBroke("Something broke on our side; it was reported.") from crash


def decode(arguments: Mapping[str, object], shape: type[Arguments]) -> Arguments:
    """A tool's arguments; raises Invalid, which names the field."""
    try:
        return msgspec.convert(arguments, shape, strict=True)
    except msgspec.ValidationError as problem:
        raise explain(str(problem)) from None


def describe(name: str, description: str, arguments: type[msgspec.Struct]) -> Members:
    """A tool as `tools/list` tells it."""
    (_, components) = msgspec.json.schema_components([arguments])
    schema = components[arguments.__name__]
    return {
        "name": name,
        "description": description,
        "inputSchema": {**schema, "additionalProperties": False},
    }


def told(result: Mapping[str, object]) -> Members:
    """The result of a call that went well."""
    text = msgspec.json.encode(result).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": dict(result)}


def no_tool(name: str) -> Members:
    """The result of calling what is not offered."""
    return _failed({"error": f"You have no tool named {name[:100]!r}.", "refused": "no_tool"})


def refused(refusal: MusterError) -> Members:
    """The result of a call that was refused."""
    members: dict[str, object] = {**refusal.facts, "error": sentence_of(refusal)}
    members["refused"] = refusal.code
    if refusal.field is not None:
        members["field"] = refusal.field
    return _failed(members)


def _failed(members: Members) -> Members:
    return {**told(members), "isError": True}
