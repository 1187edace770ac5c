"""The host's end of `/mirror/v1/socket`: hello, acknowledgements, and coming back."""

from datetime import UTC, datetime

import pytest
import trio

from muster.clients.mirror import outbox
from muster.clients.mirror.frames import Said
from muster.clients.mirror.model import (
    Focus,
    FocusSource,
    Outcome,
    Resumed,
)
from muster.clients.mirror.outbox import Outbox
from tests.support.mirror_door import TOKEN, Frame
from tests.support.mirror_stage import MirrorStage, mirror
from tests.support.waiting import dawdle, until

__all__ = ["mirror"]

SESSION = "00000000-0000-4000-8000-000000000001"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def titled(title: str, second: int = 0) -> Focus:
    """A focus title."""
    return Focus(
        claude_session=SESSION,
        title=title,
        source=FocusSource.SUMMARY,
        cwd="/src",
        at=NOW.replace(second=second),
    )


async def test_hello_comes_first_and_the_rest_after_the_welcome(mirror: MirrorStage) -> None:
    """The host says who it is, and nothing else before the server knows it."""
    mirror.door.greets = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.host.run)
        hello = await mirror.door.until("hello")
        mirror.sessions.tell_focus(titled("Early"))
        await mirror.door.send("unheard-of", seq=[])
        await mirror.door.send("ping")
        await mirror.door.until("pong")
        assert [frame["type"] for frame in mirror.door.frames] == ["hello", "pong"]
        await mirror.door.send("welcome", host_id=1, name="box", heartbeat_seconds=15)
        await mirror.door.until("windows")
        focus = await mirror.door.until("focus")
        nursery.cancel_scope.cancel()
    assert datetime.fromisoformat(hello.pop("now")).tzinfo is not None
    assert hello == {
        "type": "hello", "seq": 1, "host": "box.test", "interactive": True, "resume_spawn": False,
        "connection": 1,
    }  # fmt: skip
    assert mirror.door.tokens == [f"Bearer {TOKEN}".encode()]
    assert (focus["title"], focus["source"], focus["cwd"]) == ("Early", "summary", "/src")
    assert datetime.fromisoformat(focus["at"]) == NOW


async def test_what_was_not_acknowledged_is_said_again(mirror: MirrorStage) -> None:
    """After a loss the unacknowledged comes again under new numbers, and the rest does not."""
    kept: list[Frame] = []
    mirror.door.acknowledges = lambda frame: frame.get("title") != "Lost" or bool(kept)
    async with mirror.running():
        mirror.sessions.tell_focus(titled("Known", 1))
        mirror.sessions.tell_focus(titled("Lost", 2))
        lost = await mirror.door.until("focus", title="Lost")
        mirror.sessions.tell_focus(titled("Later", 3))
        await mirror.door.until("focus", title="Later")
        kept.append(lost)
        await mirror.door.close()
        again = await mirror.door.until("focus", title="Lost", connection=2)
        await mirror.door.close()
        await mirror.door.until("hello", connection=3)
        mirror.sessions.tell_focus(titled("Last", 4))
        await mirror.door.until("focus", title="Last", connection=3)
    seqs = [frame["seq"] for frame in mirror.door.frames if frame["connection"] == 2]
    assert seqs == sorted(set(seqs))
    assert again["seq"] >= 2
    assert len(mirror.door.seen("focus", title="Lost")) == 2
    assert len(mirror.door.seen("focus", title="Known")) == 1


async def test_the_list_of_windows_is_said_on_each_connection(mirror: MirrorStage) -> None:
    """A new connection gets the list of now, acknowledged before or not."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.close()
        await mirror.door.until("windows", connection=2)
        assert mirror.door.pane(claude.pane)["state"] == "idle"


async def test_a_paste_goes_on_while_the_connection_is_lost(mirror: MirrorStage) -> None:
    """A text that is in hand when the connection ends is told of on the next one, once typed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "hello", send_id=9)
        await claude.until("paste")
        await mirror.door.close()
        done = await mirror.door.until("paste.done", send_id=9)
    assert (done["connection"], done["outcome"]) == (2, "pasted")
    assert len(claude.seen("paste")) == 1


async def test_an_end_that_nobody_acknowledged_is_told_after_a_restart(
    mirror: MirrorStage,
) -> None:
    """The journal tells the end of a paste to whoever asks, until it is acknowledged."""
    mirror.door.acknowledges = lambda frame: frame["type"] != "paste.done"
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "hello", send_id=9)
        await mirror.door.until("paste.done", send_id=9)
    mirror.door.acknowledges = lambda _: True
    mirror.door.frames.clear()
    async with mirror.running():
        again = await mirror.door.until("paste.done", send_id=9)
        await until(lambda: len(mirror.door.frames) > 2)
    mirror.door.frames.clear()
    async with mirror.running():
        await mirror.door.until_shown(claude, "working")
    assert again["outcome"] == "pasted"
    assert mirror.door.seen("paste.done") == []
    assert len(claude.seen("paste")) == 1


@pytest.mark.parametrize("code", [4401, 4403, 4409])
async def test_three_ends_are_final(mirror: MirrorStage, code: int) -> None:
    """A bad token, a host that may not, and another program in its place end the program."""
    async with mirror.running():
        await mirror.door.close(code, "no")
        await until(lambda: mirror.closed)
    assert mirror.closed is not None
    assert mirror.closed.code == code
    assert len(mirror.door.sockets) == 1


async def test_a_handshake_that_is_refused_is_a_bad_token(mirror: MirrorStage) -> None:
    """An answer of 401 to the handshake means what a close by 4401 does."""
    mirror.door.refuses = 401
    closed = await mirror.host.run()
    assert closed.code == 4401


@pytest.mark.parametrize("code", [1001, 1011, 4400, 4408])
async def test_it_comes_back_from_every_other_end(mirror: MirrorStage, code: int) -> None:
    """Whatever else ends a connection, another one follows."""
    async with mirror.running():
        await mirror.door.close(code)
        await mirror.door.until("hello", connection=2)


async def test_a_server_that_falls_silent_is_left(mirror: MirrorStage) -> None:
    """Three heartbeats without a word end the connection."""
    mirror.door.heartbeat_seconds = 0.1
    async with mirror.running():
        await mirror.door.until("hello", connection=2)
    assert any("silent" in str(line.get("reason")) for line in mirror.told)


async def test_a_frame_that_can_not_be_read_closes_4400(mirror: MirrorStage) -> None:
    """A known frame of a wrong shape closes the connection, and another follows."""
    async with mirror.running():
        await mirror.door.send("paste", send_id="one")
        await mirror.door.until("hello", connection=2)
        reason = mirror.door.sockets[0].closed
    assert reason is not None
    assert reason.code == 4400


async def test_a_watched_pane_is_shown_while_it_changes(mirror: MirrorStage) -> None:
    """What a watched pane shows is sent at each change, and no more once the look is over."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.send("watch", pane=claude.pane, seconds=60)
        first = await mirror.door.until("screen", pane=claude.pane)
        claude.tell(do="prompt", text="go")
        await until(lambda: "* working" in mirror.door.seen("screen")[-1]["text"])
        await mirror.door.send("watch", pane=claude.pane, seconds=0)
        await mirror.door.send("ping")
        await mirror.door.until("pong")
        count = len(mirror.door.seen("screen"))
        claude.tell(do="ask")
        await mirror.door.until_shown(claude, "waiting")
        await dawdle(0.6, because="no more screens come, and nothing tells of that")
    assert "* idle" in first["text"]
    assert datetime.fromisoformat(first["at"]).tzinfo is not None
    assert len(mirror.door.seen("screen")) == count


async def test_a_new_connection_is_shown_what_did_not_change(mirror: MirrorStage) -> None:
    """A screen is told anew to a server that asks on another connection."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.send("watch", pane=claude.pane, seconds=60)
        await mirror.door.until("screen", connection=1)
        await mirror.door.close()
        await mirror.door.until("windows", connection=2)
        await mirror.door.send("watch", pane=claude.pane, seconds=60)
        again = await mirror.door.until("screen", connection=2)
    assert "* idle" in again["text"]


class Starts:
    """Resumes that always start, and count."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resume(self, claude_session: str) -> Resumed:
        """Start it, so to say."""
        self.asked.append(claude_session)
        return Resumed(outcome=Outcome.STARTED, window="@9")


async def test_a_resume_is_asked_of_the_host_and_answered(mirror: MirrorStage) -> None:
    """A host that offers resumes starts the session and says in which window."""
    mirror.resumes = starts = Starts()
    async with mirror.running():
        await mirror.door.send("resume", resume_id=2, claude_session=SESSION)
        done = await mirror.door.until("resume.done", resume_id=2)
    assert mirror.door.seen("hello")[0]["resume_spawn"] is True
    assert (done["outcome"], done["window"], starts.asked) == ("started", "@9", [SESSION])


async def test_a_host_that_offers_no_resume_refuses_it(mirror: MirrorStage) -> None:
    """Without --resume-spawn a resume is refused with a sentence."""
    async with mirror.running():
        await mirror.door.send("resume", resume_id=2, claude_session=SESSION)
        done = await mirror.door.until("resume.done", resume_id=2)
    assert (done["outcome"], done["window"]) == ("refused", None)
    assert done["detail"]


def said(name: str) -> Said:
    """Something to say."""
    return Said(type=name, members={})


def test_an_acknowledgement_is_of_what_was_said_under_its_number() -> None:
    """What took over a place meanwhile is still to be said, and acknowledged by its own number."""
    box, known = Outbox(), list[str]()
    box.put(("paste", 1), said("old"), acknowledged=lambda: known.append("old"))
    assert box.next(NOW) == '{"type":"old","seq":1}'
    box.put(("paste", 1), said("new"), acknowledged=lambda: known.append("new"))
    box.acknowledge(1)
    assert known == []
    assert box.next(NOW) == '{"type":"new","seq":2}'
    assert box.next(NOW) is None
    box.acknowledge(2)
    box.acknowledge(2)
    box.acknowledge(77)
    assert known == ["new"]
    box.begin_anew()
    assert box.next(NOW) is None


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old titles make room for new ones, and the list of windows is never what is dropped."""
    monkeypatch.setattr(outbox, "PLACES_COUNT_MAX", 300)
    box = Outbox()
    box.put(("windows", None), said("windows"))
    for number in range(500):
        box.put(("focus", number), said(f"focus-{number}"))
        box.put(("paste", number), said(f"paste-{number}"))
    frames = []
    while (frame := box.next(NOW)) is not None:
        frames.append(frame)
    assert len(frames) == 300
    assert '"windows"' in frames[0]
    assert '"paste-499"' in frames[-1]
