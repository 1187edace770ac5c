"""`muster route` by the real program, and what a server with routing says as it starts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from muster.commands.serve import HOOK_IS_UNSET
from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from muster.pg.pool import Pool
from muster.principals import Owner
from muster.routes.rules import Route
from tests.support.chaos import server_child
from tests.support.cluster import Cluster, OwnDatabase, SpiedDatabase, add_owner
from tests.support.program import Ended, Program, bare_program, program_on
from tests.support.route_desk import RouteDesk, open_route_desk
from tests.support.server import running_server

HOOK = "a-hook-token-of-32-characters-or-more"


@attrs.frozen(kw_only=True)
class Shop:
    """The program, and two routes of Ada's: one that was answered, and one that waits."""

    program: Program
    answered: Route
    waiting: Route
    subject: str


@asynccontextmanager
async def own_desk(database: OwnDatabase) -> AsyncIterator[RouteDesk]:
    """Ada's desk in a database of the test's own."""
    pool = Pool(database.app_url, size=4, waiters_max=100)
    try:
        db = SpiedDatabase(pool)
        yield await open_route_desk(db, await add_owner(db, "ada"))
    finally:
        pool.close()


@pytest.fixture
def shop(own_database: OwnDatabase, tmp_path: Path) -> Shop:
    """Ada's routes."""

    async def furnish() -> Shop:
        async with own_desk(own_database) as desk:
            answered = await desk.route()
            await desk.answer(answered, "Noon works.\n[bold]Really.[/bold]")
            return Shop(
                program=program_on(own_database, tmp_path),
                answered=answered,
                waiting=await desk.route(await desk.message(sender="\x1b[2Jada")),
                subject=desk.subject,
            )

    return trio.run(furnish)


def test_routes_are_listed(shop: Shop) -> None:
    """The newest first, with the states of all; a page of them, or none."""
    call = shop.program.call
    rows = call("route", "list", "--json").document
    assert [(row["route_id"], row["state"]) for row in rows] == [
        (shop.waiting.id, "routed"),
        (shop.answered.id, "fallback"),
    ]
    assert {row["subject"] for row in rows} == {shop.subject}
    assert rows[1]["answer"] == "Noon works.\n[bold]Really.[/bold]"
    assert len(call("route", "list", "--limit", "1", "--json").document) == 1
    table = call("route", "list").out
    assert "fallback" in table
    assert "\x1b[2J" not in table


def test_a_route_is_shown_whole(shop: Shop) -> None:
    """With its message, its session and its answer, which is quoted as it was written."""
    call = shop.program.call
    shown = call("route", "show", str(shop.answered.id))
    for part in ("fallback", str(shop.answered.message_id), shop.subject, "[bold]Really.[/bold]"):
        assert part in shown.out
    document = call("route", "show", str(shop.answered.id), "--json").document
    assert (document["state"], document["routed_by"], document["handback"]) == (
        "fallback",
        "chief",
        "none",
    )
    assert document["draft_id"] is not None
    for missing in ("99999", str(2**62)):
        gone = call("route", "show", missing, "--json")
        assert (gone.code, gone.refusal["code"]) == (3, "not_found")


@pytest.mark.rule(320, 321)
async def test_a_session_answers_by_the_command(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, tmp_path: Path
) -> None:
    """From stdin or a file, with a token of the host's; each refusal has its exit code."""
    desk = await open_route_desk(db, owner)
    route = await desk.route()
    _, token = await db.run(owner, add_personal, AddPersonal(name="mine", scope=Scope.WRITE))
    settings = {
        "MUSTER_SESSION_ROUTING": "1",
        "MUSTER_HOOK_TOKEN": HOOK,
        "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}",
    }
    async with running_server(db, cluster.app_url, **settings) as server:
        program = bare_program(tmp_path)

        async def reply(
            text: str | bytes = "Noon works.\r\n",
            *more: str,
            number: int = route.id,
            **environ: str,
        ) -> Ended:
            where = ("--url", server.url, "--json", *(more or ("--body-file", "-")))
            run = partial(program.run, "route", "reply", str(number), *where, stdin=text, **environ)
            return await trio.to_thread.run_sync(run)

        done = await reply(MUSTER_API_TOKEN=token)
        assert done.document == {
            "route_id": route.id,
            "message_id": route.message_id,
            "state": "fallback",
        }
        assert (await desk.look(route)).answer == "Noon works."
        file = tmp_path / "answer"
        file.write_text("Noon works.\n")
        again = await reply("", "--body-file", str(file), MUSTER_HOOK_TOKEN=HOOK)
        assert again.document["state"] == "fallback"
        other = await reply("One works.", MUSTER_API_TOKEN=token)
        assert (other.code, other.refusal["code"]) == (4, "other_answer")
        assert (await reply(number=2**62, MUSTER_API_TOKEN=token)).code == 3
        assert (await reply(MUSTER_API_TOKEN="mst_" + "a" * 43)).code == 5
        assert (await reply()).code == 78


def test_what_is_no_answer_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    """What is not UTF-8, what is too long, and a file that is not there."""
    call = partial(bare_program(tmp_path).call, MUSTER_API_TOKEN="mst_" + "a" * 43)
    where = ("--url", "http://127.0.0.1:1", "--json")
    for stdin in (b"\xff", b"x" * (16 * 1024 + 1)):
        wrong = call("route", "reply", "1", "--body-file", "-", *where, stdin=stdin)
        assert (wrong.code, wrong.refusal["field"]) == (2, "body-file")
    gone = call("route", "reply", "1", "--body-file", str(tmp_path / "none"), *where)
    assert gone.refusal["field"] == "body-file"
    away = call("route", "reply", "1", "--body-file", "-", *where, stdin="Noon works.")
    assert away.code == 6


@pytest.mark.rule(339)
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"MUSTER_SESSION_ROUTING": "1"}, [HOOK_IS_UNSET]),
        ({"MUSTER_SESSION_ROUTING": "0"}, []),
        (
            {
                "MUSTER_SESSION_ROUTING": "1",
                "MUSTER_HOOK_TOKEN": HOOK,
                "MUSTER_HOOK_OWNER": "ada",
            },
            [],
        ),
    ],
)
async def test_a_server_without_a_hook_token_says_so(
    own_database: OwnDatabase, tmp_path: Path, settings: dict[str, str], told: list[str]
) -> None:
    """Once, as it starts, while routing is on."""
    async with own_desk(own_database):
        program = program_on(own_database, tmp_path)
    async with server_child(program, tmp_path, **settings) as server:
        assert (await server.stop()).code == 0
        assert [line["reason"] for line in server.complaints()] == told


@pytest.mark.rule(339)
async def test_without_a_hook_token_a_personal_one_is_the_way_in(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """What would be the hook token is nobody's then."""
    desk = await open_route_desk(db, owner)
    route = await desk.route()
    _, token = await db.run(owner, add_personal, AddPersonal(name="mine", scope=Scope.WRITE))
    async with running_server(db, cluster.app_url, MUSTER_SESSION_ROUTING="1") as server:
        for key, status in ((HOOK, 401), (token, 200)):
            async with server.client(key) as client:
                body = {"body": "Noon works."}
                answer = await client.post(f"/api/routes/{route.id}/reply", json=body)
            assert answer.status_code == status
