"""Step-up in place: a form brings the proof with it, and goes on with what it asked for."""

from datetime import timedelta

import pytest

from muster.accounts.operations.sessions import sign_out_everywhere
from muster.accounts.passwords import Verdict, verify_password
from muster.accounts.rules.attempts import ACCOUNT_FAILURES_MAX
from muster.credentials.operations.personal import list_personal
from muster.credentials.rules import ListPersonal
from tests.support.builders import (
    make_agent,
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    read_audit,
)
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person
from tests.support.server import running_server
from tests.support.visitor import Visiting, page_client, sign_in

LATER = timedelta(hours=13)
WRONG = "wrong horse battery"


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


async def pending(db: SpiedDatabase, ada: Person, body: str = "Noon works.") -> dict[str, str]:
    """A draft of hers, as the fields of its card."""
    chief = await make_chief(db, ada.owner)
    message = await make_message(db, await make_plugin(db, ada.owner), delivered_to=chief)
    draft = await make_draft(db, chief, message, body=body)
    return {"draft_id": str(draft.id), "body_sha256": draft.body_sha256.hex()}


async def decide(visiting: Visiting, card: dict[str, str], **more: str) -> tuple[int, str]:
    """Send the card's approval: the status and where it leads, or the page."""
    answer = await visiting.post(f"/drafts/{card['draft_id']}/approve", **(card | more))
    return answer.status_code, answer.headers.get("location", answer.text)


@pytest.mark.rule(262)
async def test_one_form_confirms_and_approves(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A card asks for the password beside Approve; wrong it says so there, right it approves."""
    card = await pending(db, ada)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += LATER
            for path in ("/attention?tab=drafts", f"/drafts/{card['draft_id']}"):
                page = (await visiting.get(path)).text
                assert f'id="draft-{card["draft_id"]}-confirm"' in page
                assert 'name="confirm_passkey"' not in page  # she has none
            status, page = await decide(visiting, card, confirm_password=WRONG)
            assert status == 401
            assert "That is not your password, and nothing was done." in page
            assert f'aria-describedby="draft-{card["draft_id"]}-confirm-hint' in page
            assert f'role="alert" id="draft-{card["draft_id"]}-confirm-fault"' in page
            assert card["body_sha256"] in page
            assert WRONG not in page
            led = await decide(visiting, card, confirm_password=PASSWORD)
            assert led == (303, f"/attention?tab=drafts&decided={card['draft_id']}")
            again = await decide(visiting, card, confirm_password=PASSWORD)
            assert again[0] == 409


@pytest.mark.rule(262)
async def test_a_session_that_ends_while_it_confirms_is_shown_nothing(
    db: SpiedDatabase, cluster: Cluster, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed out everywhere while the password is compared, a form decides and shows nothing."""
    card = await pending(db, ada, body="A secret.")

    async def compare_late(stored: str | None, typed: str) -> Verdict:
        await db.run(ada.owner, sign_out_everywhere, None)
        return await verify_password(stored, typed)

    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += LATER
            monkeypatch.setattr("muster.accounts.actor.verify_password", compare_late)
            led = await decide(visiting, card, confirm_password=PASSWORD)
            assert led == (303, "/sign-in?next=/")
    assert await read_audit(db, ada.owner, "plugin.draft.approved") == []


@pytest.mark.rule(262)
async def test_what_was_decided_or_changed_is_told_with_the_fresh_card(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """With an old sign-in too, a decided draft or another text is 409, confirmed or not."""
    card = await pending(db, ada)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += LATER
            other = card | {"body_sha256": "0" * 64}
            for more in ({}, {"confirm_password": PASSWORD}):
                status, page = await decide(visiting, other, **more)
                assert status == 409
                assert "another text" in page
                assert f'value="{card["body_sha256"]}"' in page
            db.clock_offset += LATER
            path = f"/drafts/{card['draft_id']}/reject"
            assert (await visiting.post(path, **card)).status_code == 303
            status, page = await decide(visiting, card)
            assert status == 409
            assert "fresh sign-in" not in page
            assert "it is never sent" in page


async def test_wrong_proofs_are_counted(db: SpiedDatabase, cluster: Cluster, ada: Person) -> None:
    """After as many wrong passwords as `/step-up` allows, a right one is 429 and does nothing."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += LATER
            form = {"name": "box", "scope": "read", "expires": "7d"}
            for _ in range(ACCOUNT_FAILURES_MAX):
                answer = await visiting.post("/settings/tokens", confirm_password=WRONG, **form)
                assert answer.status_code == 401
            late = await visiting.post("/settings/tokens", confirm_password=PASSWORD, **form)
            assert late.status_code == 429
            assert int(late.headers["retry-after"]) > 0
            assert "too many attempts" in late.text
            assert 'value="box"' in late.text
            async with db.transaction(ada.owner) as tx:
                assert await list_personal(tx, ListPersonal()) == []


async def test_a_fresh_sign_in_looks_at_no_proof(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A form that was shown before somebody confirmed elsewhere is done whatever it brings."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            form = {"name": "box", "expires": "7d", "confirm_password": WRONG}
            assert (await visiting.post("/settings/tokens", **form)).status_code == 200


async def test_a_button_that_has_no_place_to_confirm_gets_a_page(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """A row's button is answered with its own fields and the confirmation, and then done."""
    await make_agent(db, ada.owner, "helper", chief=False)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, ada.owner)
        async with visiting.client:
            db.clock_offset += LATER
            path = "/settings/agents/helper/retire"
            asked = await visiting.post(path, reason="worn <out>")
            assert asked.status_code == 409
            assert f'<form method="post" action="{path}"' in asked.text
            assert 'name="reason" value="worn &lt;out&gt;"' in asked.text
            wrong = await visiting.post(path, reason="x", confirm_password=WRONG)
            assert (wrong.status_code, 'value="x"' in wrong.text) == (401, True)
            done = await visiting.post(path, reason="x", confirm_password=PASSWORD)
            assert (done.status_code, done.headers["location"]) == (303, "/settings#agents")


async def test_a_proof_is_the_visitors_own(
    db: SpiedDatabase, cluster: Cluster, ada: Person
) -> None:
    """Another account's password confirms nothing, and a guest with one is led to sign in."""
    eve = await add_person(db, password="another horse battery")
    card = await pending(db, ada)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, eve.owner)
        async with visiting.client, page_client(server) as guest:
            db.clock_offset += LATER
            form = card | {"confirm_password": "another horse battery"}
            assert (await decide(visiting, form))[0] == 404
            theirs = await visiting.post("/settings/tokens", name="box", confirm_password=PASSWORD)
            assert theirs.status_code == 401
            path = f"/drafts/{card['draft_id']}/approve"
            led = await guest.post(path, data=card | {"confirm_password": PASSWORD})
            assert led.headers["location"].startswith("/sign-in")
