"""What the server remembers of visible tabs, and for how long."""

import trio.testing

from muster.push.presence import SECONDS, TABS_MAX, Presence

DRAFT = ("draft", 1)
ASK = ("ask", 2)


async def test_a_tab_that_says_nothing_more_is_forgotten(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What a tab shows counts for a while after it said so, and no longer."""
    presence = Presence()
    presence.show(7, "a", frozenset({DRAFT}))
    autojump_clock.jump(SECONDS / 2)
    presence.show(7, "b", frozenset({ASK}))
    assert presence.shown(7) == {DRAFT, ASK}
    assert presence.shown(8) == frozenset()
    autojump_clock.jump(SECONDS / 2)
    assert presence.shown(7) == {ASK}
    autojump_clock.jump(SECONDS)
    assert not presence.watches(7)


async def test_a_tab_speaks_for_itself() -> None:
    """A tab's newest word replaces its older one, and hiding it takes nothing from another."""
    presence = Presence()
    presence.show(7, "a", frozenset({DRAFT}))
    presence.show(7, "b", frozenset({DRAFT}))
    presence.show(7, "a", frozenset())
    assert presence.shown(7) == {DRAFT}
    presence.hide(7, "b")
    presence.hide(7, "nobody")
    assert presence.watches(7)
    assert presence.shown(7) == frozenset()


async def test_tabs_are_bounded() -> None:
    """However many tabs somebody claims to have, the newest are remembered."""
    presence = Presence()
    for number in range(TABS_MAX + 5):
        presence.show(7, str(number), frozenset({("draft", number)}))
    assert presence.shown(7) == {("draft", number) for number in range(5, TABS_MAX + 5)}
