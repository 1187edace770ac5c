"""`/openapi.json`: what programs may call, as OpenAPI 3.1.

It is made from the routes' own `About` and from the Structs that decode requests and encode
answers, once, when the server starts; so it tells of the routes that exist on this server. An
answer of an error has the slugs that it can carry as an enumeration: what the wire answers beyond
them is a fault that tests/web/test_openapi_fuzzed.py finds.

Rejected: a file written by hand, which drifts; and a framework's own, which would bring its routing
along.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from web.about import About, Asks, Says, Taken
from web.answers import Answer, answer_encoded
from web.routes import Asked, Route, Routes

Json = dict[str, Any]

PATH: Final = "/openapi.json"
_SCHEMAS: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class Error(msgspec.Struct, frozen=True):
    """Every error: a sentence for people, a slug for programs, and facts of its own."""

    error: str
    code: str
    field: str | UnsetType = UNSET


_SECURITY: Final = {
    Taken.PLUGIN: "A plugin's token, `mpl_…`: good for /plugin/v1/ and nothing else.",
    Taken.PERSONAL: "A personal token, `mst_…`: its scope tells whether it may write.",
    Taken.HOOK: "The shared hook token, MUSTER_HOOK_TOKEN; it acts as MUSTER_HOOK_OWNER.",
}

# The wire's own answers, before any handler.
_WIRE: Final = (
    Says(status=400, when="The request is not valid HTTP.", codes=("malformed_request",)),
    Says(status=408, when="The request did not arrive in time.", codes=("request_timeout",)),
    Says(status=413, when="The body is too large for this route.", codes=("body_too_large",)),
    Says(status=431, when="The head is too large.", codes=("head_too_large",)),
    Says(status=500, when="A fault of muster's own; it is logged.", codes=("internal_error",)),
    Says(status=501, when="The body has an unknown coding.", codes=("unknown_coding",)),
    Says(status=505, when="This server speaks HTTP/1.1.", codes=("http_version",)),
)
_CREDENTIAL: Final = (
    Says(status=401, when="No live credential of a kind that this route takes.",
         codes=("unauthorized",)),
    Says(status=503, when="The database is away or too busy; come again.",
         codes=("unavailable", "outcome_unknown"), retry_after=True),
)  # fmt: skip
_PLUGINS_OFF: Final = Says(status=404, when="Plugins are off here.", codes=("not_found",))
_NO_PLUGINS: Final = Says(
    status=401, when="A plugin's token was shown.", codes=("credential_not_allowed",)
)
_READS_ONLY: Final = Says(
    status=403, when="The token may read and change nothing.", codes=("scope",)
)
_NO_HOOK_OWNER: Final = Says(
    status=409, when="MUSTER_HOOK_OWNER names no live account.", codes=("hook_owner_unknown",)
)
_BODY: Final = Says(status=400, when="The body is not JSON.", codes=("bad_json", "invalid"))


def openapi_routes(routes: Routes) -> Routes:
    """The route that serves the document of `routes` and of itself."""
    told: list[bytes] = []

    async def serve_document(_asked: Asked) -> Answer:
        return answer_encoded(200, told[0])

    own = Route("GET", PATH, serve_document, about=_OWN)
    told.append(msgspec.json.encode(document((*routes, own))))
    return (own,)


_OWN: Final = About(
    name="openapi",
    summary="This document",
    says=(Says(status=200, when="OpenAPI 3.1, of the routes that exist on this server."),),
)


def document(routes: Iterable[Route]) -> Json:
    """The OpenAPI document of those of `routes` that are meant for programs."""
    told = [(route, route.about) for route in routes if route.about is not None]
    shapes: list[type[msgspec.Struct]] = [Error]
    for _, about in told:
        shapes += [about.body] if about.body else []
        shapes += [says.shape for says in about.says if says.shape]
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(shapes)), ref_template=_SCHEMAS)
    paths: dict[str, Json] = {}
    for route, about in told:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, about)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "muster",
            "version": "1",
            "description": "What programs may call. Errors are JSON with a sentence and a slug.",
        },
        # Relative to where the document was read: the server may be behind any name.
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                taken.value: {"type": "http", "scheme": "bearer", "description": text}
                for taken, text in _SECURITY.items()
            },
        },
    }


def _operation(route: Route, about: About) -> Json:
    operation: Json = {
        "operationId": about.name,
        "summary": about.summary,
        "description": about.text,
        "security": [{taken.value: []} for taken in about.takes],
        "responses": _responses(about),
    }
    parameters = [*_path_parameters(route.path, about), *map(_query_parameter, about.query)]
    if parameters:
        operation["parameters"] = parameters
    if about.body is not None:
        content: Json = {"schema": _reference(about.body)}
        if about.body_example is not None:
            content["examples"] = _examples(about.body_example)
        operation["requestBody"] = {
            "required": not about.body_optional,
            "content": {"application/json": content},
        }
    return operation


def _path_parameters(path: str, about: About) -> Iterator[Json]:
    for name in _PARAMETER.findall(path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": about.id_meaning,
            "schema": {"type": "integer", "minimum": 1},
        }


def _query_parameter(asks: Asks) -> Json:
    (schema,), _ = msgspec.json.schema_components([asks.type], ref_template=_SCHEMAS)
    return {"name": asks.name, "in": "query", "description": asks.meaning, "schema": schema}


def says_of(about: About) -> Mapping[int, Sequence[Says]]:
    """All that a route can answer, by status: its own, and what it has in common with others."""
    common = list(_WIRE)
    if about.body is not None:
        common.append(_BODY)
    if about.takes:
        common += _CREDENTIAL
    if Taken.PERSONAL in about.takes:
        common.append(_READS_ONLY)
    if Taken.HOOK in about.takes:
        common.append(_NO_HOOK_OWNER)
    common.append(_PLUGINS_OFF if Taken.PLUGIN in about.takes else _NO_PLUGINS)
    found: dict[int, list[Says]] = {}
    for says in (*about.says, *common):
        found.setdefault(says.status, []).append(says)
    return dict(sorted(found.items()))


def _responses(about: About) -> Json:
    return {str(status): _response(status, says) for status, says in says_of(about).items()}


def _response(status: int, says: Sequence[Says]) -> Json:
    response: Json = {"description": " ".join(each.when for each in says)}
    headers = dict(_headers(status, says))
    if headers:
        response["headers"] = headers
    schema = _answer_schema(status, says)
    if schema is not None:
        content: Json = {"schema": schema}
        example = next((each.example for each in says if each.example is not None), None)
        if example is not None:
            content["examples"] = _examples(example)
        response["content"] = {"application/json": content}
    return response


def _answer_schema(status: int, says: Sequence[Says]) -> Json | None:
    shape = next((each.shape for each in says if each.shape is not None), None)
    codes = sorted({code for each in says for code in each.codes})
    if not codes:
        bodiless = status == HTTPStatus.NO_CONTENT or all(each.bodiless for each in says)
        return None if bodiless else {"type": "object"} if shape is None else _reference(shape)
    slugs = {"type": "object", "properties": {"code": {"enum": codes}}}
    return {"allOf": [_reference(shape or Error), slugs]}


def _headers(status: int, says: Sequence[Says]) -> Iterator[tuple[str, Json]]:
    if status == HTTPStatus.TOO_MANY_REQUESTS or any(each.retry_after for each in says):
        yield (
            "Retry-After",
            {
                "description": "After how many seconds to come again.",
                "required": True,
                "schema": {"type": "integer", "minimum": 0},
            },
        )
    if all("unauthorized" in each.codes for each in says):
        yield (
            "WWW-Authenticate",
            {"description": "Bearer", "required": True, "schema": {"type": "string"}},
        )


def _reference(shape: type[msgspec.Struct]) -> Json:
    return {"$ref": _SCHEMAS.format(name=shape.__name__)}


def _examples(value: msgspec.Struct) -> Json:
    """An example as it goes over the wire: what is at its default is left out of a request."""
    told = msgspec.to_builtins(value)
    defaults = {field.name: field.default for field in msgspec.structs.fields(value)}
    return {
        "one": {
            "value": {
                name: member
                for name, member in told.items()
                if not (isinstance(member, bool) and member is defaults.get(name))
            }
        }
    }
