"""What `/openapi.json` tells, beside what the router does."""

from typing import Any

import httpx2
import jsonschema_rs
import msgspec
import pytest

from muster.drafts import operations as drafts
from tests.support.desk import Desk, OpenDesk
from tests.support.server import call_tool
from web.about import About, Taken
from web.app import routes_of
from web.bodies import decode
from web.openapi import document, says_of
from web.pages.static_files import STATIC
from web.routes import Route
from web.slugs import BY_NAME

GOOD = {"external_id": "m1", "body": "Does noon work?"}
CLAIM = "/plugin/v1/drafts/claim"
RESULT = "/plugin/v1/drafts/{id}/result"
PAGES_OWN = frozenset(route.path for route in STATIC)
"""Files of the pages are no door for programs."""


def told(routes: tuple[Route, ...]) -> dict[tuple[str, str], About | None]:
    """The routes for programs with what they tell."""
    return {
        (route.method, route.path): route.about for route in routes if route.path not in PAGES_OWN
    }


async def test_every_route_is_documented_and_no_other(desk: OpenDesk) -> None:
    """The document that is served has exactly the router's routes for programs."""
    async with desk() as at:
        routes = told(routes_of(at.server.node))
        assert len(routes) >= 6
        silent = [place for place, about in routes.items() if about is None]
        assert not silent, f"Route(…, about=About(…)) is missing at {silent}"
        async with at.server.client() as client:
            served = (await client.get("/openapi.json")).json()
    found = {
        (method.upper(), path) for path, methods in served["paths"].items() for method in methods
    }
    assert found == set(routes)


async def test_what_is_off_is_not_documented(desk: OpenDesk) -> None:
    """While plugins are off the document has none of their routes."""
    async with desk(MUSTER_PLUGINS="0") as at, at.server.client() as client:
        served: dict[str, Any] = (await client.get("/openapi.json")).json()
        assert not [path for path in served["paths"] if path.startswith("/plugin/")]
        assert "/healthz" in served["paths"]


async def test_each_slug_that_is_named_exists_and_has_its_status(desk: OpenDesk) -> None:
    """A route names slugs of the catalogue alone, under the status that they come with."""
    async with desk() as at:
        abouts = [about for about in told(routes_of(at.server.node)).values() if about]
    for about in abouts:
        for status, says in says_of(about).items():
            for code in (code for each in says for code in each.codes):
                assert BY_NAME[code].status == status, (about.name, code)


async def test_examples_are_what_the_doors_take(desk: OpenDesk) -> None:
    """Each example of a body is read by the decoder of its own route."""
    async with desk() as at:
        served = document(routes_of(at.server.node))
        bodies = {
            about.name: about.body for about in told(routes_of(at.server.node)).values() if about
        }
    seen = 0
    for methods in served["paths"].values():
        for operation in methods.values():
            body = bodies[operation["operationId"]]
            if body is None:
                continue
            content = operation["requestBody"]["content"]["application/json"]
            for example in content["examples"].values():
                decode(msgspec.json.encode(example["value"]), body)
                seen += 1
    assert seen >= 3


async def test_each_door_names_the_kind_that_it_takes(desk: OpenDesk) -> None:
    """A plugin's routes name the plugin's token, and no other route does."""
    async with desk() as at:
        for (_, path), about in told(routes_of(at.server.node)).items():
            assert about is not None
            assert (Taken.PLUGIN in about.takes) == path.startswith("/plugin/v1/"), path


async def test_the_loop_answers_by_its_schemas(desk: OpenDesk) -> None:
    """What a message, a claim and its results are answered with is of the documented schemas."""
    async with desk() as at:
        async with at.server.client() as client:
            served: dict[str, Any] = (await client.get("/openapi.json")).json()
        answers = [
            ("/plugin/v1/messages", await at.send("messages", GOOD)),
            ("/plugin/v1/messages", await at.send("messages", GOOD)),
            ("/plugin/v1/messages", await at.send("messages", {"external_id": "m2"})),
            (CLAIM, await at.claim()),
        ]
        draft_id = await approved_reply(at, answers[0][1].json()["id"])
        answers += [
            (CLAIM, await at.claim()),
            (RESULT, await at.report(draft_id, ok=True)),
            (RESULT, await at.report(draft_id, ok=False)),
            (RESULT, await at.report(draft_id + 1, ok=True)),
        ]
    statuses = [answer.status_code for _, answer in answers]
    assert statuses == [202, 200, 400, 204, 200, 200, 409, 404]
    for path, answer in answers:
        told = served["paths"][path]["post"]["responses"][str(answer.status_code)]
        if answer.status_code == 204:
            assert "content" not in told
            continue
        schema = told["content"]["application/json"]["schema"]
        validator = jsonschema_rs.validator_for({**schema, "components": served["components"]})
        validator.validate(answer.json())


async def approved_reply(at: Desk, message_id: int) -> int:
    """Have the chief draft a reply on its turn, and approve it; the draft's id."""
    async with at.agent() as agent:
        await agent.next_frame("welcome")
        await at.claim()  # which has muster hand over what waits
        turn = await agent.next_frame("turn")
        result = await call_tool(
            at.server, at.chief_token, "reply_draft", message_id=message_id, body="Noon works."
        )
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
    draft_id: int = result["structuredContent"]["draft_id"]
    await at.server.node.db.run(at.owner, drafts.approve, drafts.Approve(draft_id=draft_id))
    return draft_id


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json"])
async def test_a_plugin_token_gets_what_the_document_says(desk: OpenDesk, path: str) -> None:
    """Outside of /plugin/v1/ a plugin's token is 401, and the document says so."""
    async with desk() as at:
        async with at.server.client() as client:
            served = (await client.get("/openapi.json")).json()
        async with at.server.client(at.plugin_token) as client:
            answer: httpx2.Response = await client.get(path)
    assert answer.status_code == 401
    schema = served["paths"][path]["get"]["responses"]["401"]["content"]["application/json"]
    assert schema["schema"]["allOf"][1]["properties"]["code"]["enum"] == [answer.json()["code"]]
