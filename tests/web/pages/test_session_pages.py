"""/sessions and a session's page: what windows show, its queue, and the box that sends to it."""

import html
import re
from datetime import timedelta

import pytest
import trio

from tests.support.builders import read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, new_host, new_session
from tests.support.mirrored_desk import WINDOW_SECONDS, mirrored
from tests.support.owner_desk import OpenOwnerDesk, text_of
from tests.support.person import PASSWORD, add_person
from tests.support.send_desk import open_send_desk
from tests.support.server import running_server
from tests.support.visitor import sign_in
from tests.support.waiting import until


async def test_sessions_stand_with_what_they_do(owner_desk: OpenOwnerDesk) -> None:
    """Name, host, state, folder, title and queue of each session; the hosts under them."""
    async with mirrored(owner_desk) as m:
        await m.focus("Mend <the> gate\u202e")
        await m.send("go on")
        page = await m.at.page("/sessions")
        for told in ("main:1 on box", "working", "example/work", "/srv/work", "box.test", "online"):
            assert told in text_of(page), told
        assert "Mend &lt;the&gt; gate" in page
        assert "\u202e" not in page
        assert '<td data-label="Queue">1</td>' in page
        assert "No session has ended" in await m.at.page("/sessions?show=ended")


async def test_a_session_that_cannot_take_says_why(owner_desk: OpenOwnerDesk) -> None:
    """A host that only shows, one that went away, and a session that no window shows any more."""
    async with mirrored(owner_desk, interactive=False) as m:
        reason = "box does not run with --interactive"
        assert reason in text_of(await m.at.page("/sessions"))
        assert "reading only" in text_of(await m.at.page("/sessions"))
        assert reason in text_of(await m.page())
        await m.host.show()
        assert "No window shows a session" in await m.at.page("/sessions")
        ended = await m.at.page("/sessions?show=ended")
        assert m.name in ended or "example/work" in ended
        assert "no window shows it" in text_of(await m.page())


async def test_a_host_that_went_away_is_offline_at_once(owner_desk: OpenOwnerDesk) -> None:
    """Its windows stand there still, as offline."""
    async with owner_desk() as at:
        _, token = await new_host(at.db, at.owner)
        async with ScriptedHost(at.server.url, token) as host:
            await host.hello()
            await host.show(new_session())

        async def is_offline() -> bool:
            return "box is offline" in await at.page("/sessions")

        await until(is_offline)
        page = await at.page("/sessions")
        assert ">offline<" in page
        (path,) = re.findall(r'href="(/sessions/\d+)"', page)
        assert "Nothing can be seen: box is offline." in await at.page(path)


@pytest.mark.rule(315)
async def test_a_text_waits_in_its_queue_and_is_cancelled(owner_desk: OpenOwnerDesk) -> None:
    """Each text says what it waits for; one that is cancelled is a receipt from then on."""
    async with mirrored(owner_desk) as m:
        answer = await m.send("go <on>\r\nplease")
        (first,) = await m.texts()
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            f"{m.path}#send-{first.id}",
        )
        assert first.text == "go <on>\nplease"
        await m.send("and then this")
        page = await m.page()
        assert "go &lt;on&gt;" in page
        told = text_of(page)
        assert "It waits for its session to be idle: it works." in told
        assert "It waits for the text before it." in told
        assert f"mirror:{m.name}" in told
        gone = await m.at.visiting.post(f"{m.path}/sends/{first.id}/cancel")
        assert gone.headers["location"] == f"{m.path}#queue"
        again = text_of(await m.page())
        assert "Never pasted: cancelled by its owner" in again
        assert [one.text for one in await m.texts()] == ["and then this"]
        assert (await m.at.visiting.post(f"{m.path}/sends/{first.id}/cancel")).status_code == 303
        rows = await read_audit(m.at.db, m.at.owner, "send.")
        assert [row.action for row in rows] == ["send.queued", "send.queued", "send.cancelled"]


async def test_a_form_that_is_sent_twice_is_queued_once(owner_desk: OpenOwnerDesk) -> None:
    """A double click or Back queues nothing twice; another text, or a page made later, is new."""
    async with mirrored(owner_desk) as m:
        sends = f"{m.path}/sends"
        made_at = _made_at(await m.page())
        places: list[str] = []

        async def send(text: str, made_at: str) -> None:
            answer = await m.at.visiting.post(sends, text=text, made_at=made_at)
            assert answer.status_code == 303, answer.text
            places.append(answer.headers["location"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "go on", made_at)
            nursery.start_soon(send, "go on", made_at)
        await send("go on", made_at)
        assert [one.text for one in await m.texts()] == ["go on"]
        assert len(set(places)) == 1
        await send("go on then", made_at)
        await send("go on", _made_at(await m.page()))
        assert [one.text for one in await m.texts()] == ["go on", "go on then", "go on"]
        odd = await m.at.visiting.post(sends, text="go on", made_at="yesterday")
        assert odd.status_code == 400
        assert "go on</textarea>" in odd.text
        assert len(await m.texts()) == 3


def _made_at(page: str) -> str:
    found = re.search(r'name="made_at" value="([^"]+)"', page)
    assert found is not None
    return html.unescape(found[1])


async def test_what_is_no_text_comes_back(owner_desk: OpenOwnerDesk) -> None:
    """An empty text and one of over 16 KiB are refused on the page, with what was typed."""
    async with mirrored(owner_desk) as m:
        for text in (" \n", "x" * (16 * 1024 + 1), "é" * (8 * 1024 + 1)):
            answer = await m.send(text)
            assert answer.status_code == 400
            assert "1 to 16384 bytes" in answer.text
            assert 'id="text-fault"' in answer.text
            assert text.strip() in answer.text
        assert (await m.send("x" * 16 * 1024)).status_code == 303
        assert len(await m.texts()) == 1


async def test_a_stale_sign_in_is_confirmed_in_place(owner_desk: OpenOwnerDesk) -> None:
    """The form comes back with its text and asks; what is queued carries the sign-in's time."""
    async with mirrored(owner_desk) as m:
        await m.send("in time")
        m.at.db.clock_offset += timedelta(seconds=WINDOW_SECONDS + 1)
        answer = await m.send("too late")
        assert answer.status_code == 409
        assert "This needs a fresh sign-in" in answer.text
        assert "too late" in answer.text
        (only,) = await m.texts()
        assert (only.text, only.state.value) == ("in time", "refused")
        assert "Never pasted: the sign-in that queued it is too old" in text_of(await m.page())


async def test_the_proof_in_the_form_is_the_texts_own(db: SpiedDatabase, cluster: Cluster) -> None:
    """A password beside the text queues it with the time of that proof, so that it is pasted."""
    person = await add_person(db)
    desk = await open_send_desk(db, person.owner)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, person.owner)
        async with visiting.client:
            db.clock_offset += timedelta(seconds=WINDOW_SECONDS + 1)
            path = f"/sessions/{desk.mirrored_id}"
            assert 'id="send-confirm"' in (await visiting.get(path)).text
            wrong = await visiting.post(f"{path}/sends", text="go on", confirm_password="no")
            assert (wrong.status_code, await desk.listed()) == (401, [])
            assert "go on" in wrong.text
            right = await visiting.post(f"{path}/sends", text="go on", confirm_password=PASSWORD)
            assert right.status_code == 303
        (queued,) = await desk.listed()
        send = await desk.get(queued.id)
        assert queued.state.value == "queued"
        assert send.signed_in_at is not None
        assert send.signed_in_at > await desk.ago(minutes=1)


async def test_an_unconfirmed_text_is_resolved(owner_desk: OpenOwnerDesk) -> None:
    """It holds the queue until its owner says what became of it, and the receipt says that."""
    async with mirrored(owner_desk, state="idle", idle_seconds=3600) as m:
        await m.send("first")
        order = await m.host.hear("paste")
        await m.paste_done(order["send_id"], "unconfirmed", "no proof <b>")
        await m.send("second")
        page = await m.page()
        assert "no proof &lt;b&gt;" in page
        assert "It waits for your word on whether the text before it arrived." in text_of(page)
        assert "queue held" in page
        assert ">held<" in await m.at.page("/sessions")
        resolve = f"{m.path}/sends/{order['send_id']}/resolve"
        assert (await m.at.visiting.post(resolve, arrived="maybe")).status_code == 400
        answer = await m.at.visiting.post(resolve, arrived="no")
        assert answer.headers["location"] == f"{m.path}#queue"
        assert "It did not arrive: its owner says" in text_of(await m.page())
        assert (await m.at.visiting.post(resolve, arrived="yes")).status_code == 409
        following = await m.host.hear("paste")
        assert following["text"] == "second"
        await m.paste_done(following["send_id"], "pasted")
        assert "on box: the session itself showed it" in text_of(await m.page())


async def test_focus_stands_with_its_sources(owner_desk: OpenOwnerDesk) -> None:
    """Titles are listed newest first, each with where it comes from."""
    async with mirrored(owner_desk) as m:
        await m.focus("Look at it", source="prompt")
        await m.focus("The gate", cwd="/srv/other")
        told = text_of(await m.page())
        assert told.index("The gate") < told.index("Look at it")
        assert "its transcript's summary" in told
        assert "the first line of a prompt" in told


async def test_the_terminal_is_shown_while_somebody_looks(owner_desk: OpenOwnerDesk) -> None:
    """A look has the host tell its screen; what it tells stands there, made harmless."""
    async with mirrored(owner_desk) as m:
        assert "has not told what it shows yet" in await m.page()
        watch = await m.host.hear("watch")
        assert watch["pane"] == "%1"
        seen = {"pane": "%1", "text": "$ <ls>\n\u202ex", "at": "2026-01-01T00:00:00Z"}
        await m.host.until_acknowledged(await m.host.say("screen", **seen))
        part = await m.at.page(f"{m.path}/screen")
        for shown in (part, await m.page()):
            assert "$ &lt;ls&gt;" in shown
            assert "\u202e" not in shown
        assert "<html" not in part


async def test_of_somebody_else_there_is_nothing(owner_desk: OpenOwnerDesk) -> None:
    """Another owner's session, its terminal and its texts are not found, and stay as they are."""
    async with mirrored(owner_desk) as m:
        await m.send("mine")
        (mine,) = await m.texts()
        other = await sign_in(m.at.server, (await add_person(m.at.db)).owner)
        async with other.client:
            assert "No window shows a session" in (await other.get("/sessions")).text
            for path in (m.path, f"{m.path}/screen", "/sessions/0", "/sessions/x"):
                assert (await other.get(path)).status_code == 404, path
            for form in ("sends", f"sends/{mine.id}/cancel", f"sends/{mine.id}/resolve"):
                answer = await other.post(f"{m.path}/{form}", text="theirs", arrived="yes")
                assert answer.status_code == 404, form
        assert await m.texts() == [mine]


async def test_the_pages_have_a_place_once_there_is_a_host(owner_desk: OpenOwnerDesk) -> None:
    """Without a host nothing leads to the sessions; their page says how to begin."""
    async with owner_desk() as at:
        page = await at.page("/sessions")
        assert '<a href="/sessions"' not in page.partition("</nav>")[0]
        assert 'href="/settings#hosts"' in page
        await new_host(at.db, at.owner)
        assert '<a href="/sessions"' in (await at.page("/tasks")).partition("</nav>")[0]
