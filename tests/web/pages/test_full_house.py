"""Every page with all that it can have to show: for everybody, and no wider than its window."""

import pytest

from tests.support.browser import Browser
from tests.support.full_house import full_house
from tests.support.owner_desk import OpenOwnerDesk

SIZES = [(360, 800, False), (360, 800, True), (1280, 900, False), (1280, 900, True)]


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
async def test_a_full_house_is_for_everybody(
    browser: Browser, owner_desk: OpenOwnerDesk, width: int, height: int, *, dark: bool
) -> None:
    """Where an owner has everything axe finds nothing serious, and no page is too wide."""
    async with owner_desk() as at, full_house(at) as house:
        url, cookie = at.server.node.config.public_url, at.visiting.session.cookie
        async with browser.tab(url, session=cookie, width=width, height=height, dark=dark) as tab:
            for path in house.paths:
                assert await tab.go(path) == 200, path
                assert await tab.find_faults() == [], path
                assert await tab.overflow() <= 0, path
