"""The events of open pages: ids, replay, and what a slow or late page is told."""

from muster.node.live import EVENTS_MAX, RESYNC, WAITING_MAX, Live


def test_a_page_gets_what_it_missed() -> None:
    """A page that names the last event it saw gets its owner's later ones, in their order."""
    live = Live("node")
    live.tell(7, "draft", {"id": 1})
    first = live.missed(7, "node-0")
    assert first is not None
    live.tell(8, "draft", {"id": 2})
    live.tell(7, "ask", {"id": 3})
    missed = live.missed(7, live.id_of(first[0]))
    assert missed is not None
    assert [(event.name, event.data) for event in missed] == [("ask", {"id": 3})]


def test_nobody_knows_what_another_server_said() -> None:
    """An id of another server, of the future or of long ago cannot be answered from memory."""
    live = Live("node")
    for number in range(EVENTS_MAX + 2):
        live.tell(7, "draft", {"id": number})
    assert live.missed(7, "other-1") is None
    assert live.missed(7, "node-1") is None
    assert live.missed(7, f"node-{EVENTS_MAX + 3}") is None
    assert live.missed(7, "node-x") is None
    assert live.missed(7, f"node-{EVENTS_MAX + 2}") == []


def test_a_page_that_names_nothing_missed_nothing() -> None:
    """A page that was just made begins with what comes."""
    live = Live("node")
    live.tell(7, "draft", {"id": 1})
    assert live.missed(7, None) == []


async def test_events_reach_their_owner_alone() -> None:
    """Only the owner's own streams hear of a change."""
    live = Live("node")
    with live.listening(7, 1) as mine, live.listening(8, 2) as other:
        live.tell(7, "draft", {"id": 1})
        await mine.wait()
        lost, events = mine.take()
        assert (lost, [event.data for event in events]) == (False, [{"id": 1}])
        assert other.take() == (False, [])


async def test_a_slow_page_is_told_to_look_anew() -> None:
    """What a page does not take in time is dropped, and it learns that something was."""
    live = Live("node")
    with live.listening(7, 1) as slow:
        for number in range(WAITING_MAX + 1):
            live.tell(7, "draft", {"id": number})
        lost, events = slow.take()
        assert lost
        assert len(events) == 1


async def test_a_session_that_ends_ends_its_streams() -> None:
    """Ending one session leaves the owner's other one open; ending all leaves none."""
    live = Live("node")
    with live.listening(7, 1) as first, live.listening(7, 2) as second:
        live.end_sessions(7, 1)
        assert (first.ended, second.ended) == (True, False)
        live.end_sessions(7)
        assert second.ended


async def test_lost_hints_make_pages_look_anew() -> None:
    """After hints may have been lost, every owner with an open page is told once."""
    live = Live("node")
    with live.listening(7, 1) as first, live.listening(7, 2):
        live.resync()
        assert [event.name for event in first.take()[1]] == [RESYNC]
