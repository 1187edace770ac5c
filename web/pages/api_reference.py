"""`/docs/api`: the OpenAPI document as a page for people.

It is made from the document itself and from nothing else, so the two cannot differ.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

Json = Mapping[str, Any]

_FRONTS: Final = ("/plugin/", "/api/", "/")
_COMMON_MIN: Final = 2
"""A status that at least so many routes answer alike, and all of them, is told once."""


@attrs.frozen(kw_only=True)
class Member:
    """A field of a body or a parameter."""

    name: str
    kind: str
    required: bool
    meaning: str


@attrs.frozen(kw_only=True)
class Status:
    """One status that a route answers with."""

    code: str
    meaning: str
    slugs: tuple[str, ...]
    headers: tuple[str, ...]
    members: tuple[Member, ...]
    example: str


@attrs.frozen(kw_only=True)
class Operation:
    """One route."""

    anchor: str
    method: str
    path: str
    summary: str
    text: str
    takes: tuple[str, ...]
    parameters: tuple[Member, ...]
    body: tuple[Member, ...]
    body_optional: bool
    body_example: str
    statuses: tuple[Status, ...]


@attrs.frozen(kw_only=True)
class Reference:
    """The whole page: the routes, and what every one of them may answer."""

    operations: tuple[Operation, ...]
    common: tuple[Status, ...]


def read_document(document: Json) -> Reference:
    """Make the page's parts of an OpenAPI document of ours."""
    read = _Reader(document)
    operations = tuple(sorted(read.operations(), key=_shelf))
    shared = _shared(operations)
    return Reference(
        operations=tuple(
            attrs.evolve(
                operation,
                statuses=tuple(status for status in operation.statuses if status not in shared),
            )
            for operation in operations
        ),
        common=shared,
    )


def _shelf(operation: Operation) -> int:
    """What plugins call comes first, then what a person's programs call, then the rest."""
    fronts = [front for front in _FRONTS if operation.path.startswith(front)]
    return _FRONTS.index(fronts[0])


def _shared(operations: Sequence[Operation]) -> tuple[Status, ...]:
    if len(operations) < _COMMON_MIN:
        return ()
    first, *others = operations
    return tuple(
        status
        for status in first.statuses
        if all(status in operation.statuses for operation in others)
    )


class _Reader:
    """Follows the references of one document."""

    def __init__(self, document: Json) -> None:
        self._document = document

    def operations(self) -> Iterator[Operation]:
        for path, methods in self._document["paths"].items():
            for method, told in methods.items():
                body = told.get("requestBody")
                content = body["content"]["application/json"] if body else {}
                yield Operation(
                    anchor=told["operationId"],
                    method=method.upper(),
                    path=path,
                    summary=told["summary"],
                    text=told["description"],
                    takes=tuple(name for scheme in told["security"] for name in scheme),
                    parameters=tuple(map(self._parameter, told.get("parameters", ()))),
                    body=self._members(content["schema"]) if content else (),
                    body_optional=bool(body) and not body["required"],
                    body_example=_example(content),
                    statuses=tuple(
                        self._status(code, response) for code, response in told["responses"].items()
                    ),
                )

    def _status(self, code: str, response: Json) -> Status:
        content = response.get("content", {}).get("application/json", {})
        schema = content.get("schema", {})
        slugs: tuple[str, ...] = ()
        if "allOf" in schema:
            schema, narrowed = schema["allOf"]
            slugs = tuple(narrowed["properties"]["code"]["enum"])
        is_plain_error = schema.get("$ref", "").endswith("/Error")
        return Status(
            code=code,
            meaning=response["description"],
            slugs=slugs,
            headers=tuple(response.get("headers", ())),
            members=() if is_plain_error else self._members(schema),
            example=_example(content),
        )

    def _parameter(self, told: Json) -> Member:
        return Member(
            name=f"{told['name']} ({told['in']})",
            kind=self._kind(told["schema"]),
            required=told.get("required", False),
            meaning=told["description"],
        )

    def _members(self, schema: Json) -> tuple[Member, ...]:
        shape = self._followed(schema)
        required = shape.get("required", ())
        return tuple(
            Member(
                name=name,
                kind=self._kind(member),
                required=name in required,
                meaning=member.get("description", ""),
            )
            for name, member in shape.get("properties", {}).items()
        )

    def _followed(self, schema: Json) -> Json:
        if "$ref" not in schema:
            return schema
        *_, name = schema["$ref"].split("/")
        found: Json = self._document["components"]["schemas"][name]
        return found

    def _kind(self, schema: Json) -> str:
        """A type in a few words."""
        if "anyOf" in schema:
            return " or ".join(self._kind(each) for each in schema["anyOf"])
        if "enum" in schema:
            return " | ".join(json.dumps(value) for value in schema["enum"])
        followed = self._followed(schema)
        if followed is not schema:
            return self._kind(followed) if "enum" in followed else str(followed.get("title", ""))
        if schema.get("type") == "array":
            return f"list of {self._kind(schema.get('items', {}))}"
        return str(schema.get("type", "anything"))


def _example(content: Json) -> str:
    for example in content.get("examples", {}).values():
        return json.dumps(example["value"], indent=2, ensure_ascii=False)
    return ""
