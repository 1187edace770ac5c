"""The manual and the reference of the API, in a real browser."""

import pytest

from tests.support.browser import Browser
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.server import running_server
from web.pages.manual_pages import ORDER

PATHS = ("/docs", "/docs/api", *(f"/docs/{name}" for name in ORDER))

DIFFERENT = ("/docs", "/docs/api", "/docs/errors", "/docs/plugins")
"""The others are made of the same parts."""


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)])
async def test_the_manual_fits_and_can_be_read(
    db: SpiedDatabase, cluster: OwnDatabase, browser: Browser, width: int, *, dark: bool
) -> None:
    """On a phone and on a desk axe finds nothing serious and nothing sticks out."""
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url, width=width, dark=dark) as tab:
            for path in PATHS:
                assert await tab.go(path) == 200
                assert await tab.overflow() == 0, path
                if path in DIFFERENT:
                    assert await tab.find_faults() == [], path


async def test_the_manual_needs_no_script(
    db: SpiedDatabase, cluster: OwnDatabase, browser: Browser
) -> None:
    """Without JavaScript a reader comes from the contents to a page and to the reference."""
    async with running_server(db, cluster.app_url) as server:
        url = server.node.config.public_url
        async with browser.tab(url, scripts=False) as tab:
            await tab.go("/docs")
            await tab.press("Writing a plugin", within="nav.contents")
            await tab.reaches("/docs/plugins")
            await tab.sees("Bringing messages")
            await tab.press("API reference", within="nav.contents")
            await tab.reaches("/docs/api")
            await tab.sees("/plugin/v1/drafts/claim")
