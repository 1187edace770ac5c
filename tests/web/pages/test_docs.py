"""The manual and the reference of the API, as anybody sees them."""

from html.parser import HTMLParser
from importlib import resources

import httpx2
import pytest

from muster.settings import SETTINGS
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.server import running_server
from tests.support.visitor import page_client
from web.app import routes_of
from web.pages.manual_pages import ORDER, load_manual, render
from web.slugs import SLUGS


class Links(HTMLParser):
    """The addresses that a page links to, its anchors, elements and attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.anchors: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        for name, value in attrs:
            if name == "href" and value:
                self.hrefs.append(value)
            if name == "id" and value:
                self.anchors.append(value)


async def every_page(client: httpx2.AsyncClient) -> dict[str, str]:
    """Each page of the manual, by its address."""
    paths = ["/docs", "/docs/api", *(f"/docs/{name}" for name in ORDER)]
    found = {}
    for path in paths:
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].startswith("text/html")
        found[path] = answer.text
    return found


async def test_the_manual_is_there_for_everybody(db: SpiedDatabase, cluster: OwnDatabase) -> None:
    """Without a session each page is shown, each link leads somewhere, and no script is in it."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        pages = await every_page(client)
        links = {path: Links(html) for path, html in pages.items()}
        for path, found in links.items():
            assert len(found.anchors) == len(set(found.anchors)), path
            for href in found.hrefs:
                page, _, anchor = href.partition("#")
                if (page or path) in links and anchor:
                    assert anchor in links[page or path].anchors, (path, href)
                elif page.startswith("/docs"):
                    assert page in links, (path, href)
        assert (await client.get("/docs/nowhere")).status_code == 404
        assert '<footer class="foot">' in pages["/docs"]


async def test_the_reference_shows_every_route(db: SpiedDatabase, cluster: OwnDatabase) -> None:
    """Each documented route has a section with its method, its path and its slugs."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        html = (await client.get("/docs/api")).text
        abouts = [
            (f"{route.method} {route.path}", route.about)
            for route in routes_of(server.node)
            if route.about is not None
        ]
    assert len(abouts) > 5
    anchors = Links(html).anchors
    for place, about in abouts:
        assert about.name in anchors
        assert f"<code>{place}</code>" in html
        assert about.summary in html.replace("&#39;", "'")
    assert "messages_undelivered" in html
    assert "Retry-After" in html
    assert "wait_seconds" in html


async def test_slugs_and_settings_are_listed_from_the_code(
    db: SpiedDatabase, cluster: OwnDatabase
) -> None:
    """The page of errors has every slug, that of the configuration every setting."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        errors = (await client.get("/docs/errors")).text
        settings = (await client.get("/docs/configuration")).text
    for slug in SLUGS:
        assert f"<code>{slug.name}</code>" in errors
    for setting in SETTINGS:
        assert f"<code>{setting.name}</code>" in settings


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "![a](https://elsewhere.test/x.png)",
        '<a href="/" onclick="x()">a</a>',
    ],
)
def test_nothing_but_text_comes_out(text: str) -> None:
    """HTML, scripts, pictures and other schemes in a page's text come out as text or not at all."""
    page = render("x", f"# Title\n\n{text}\n")
    found = Links(page.html)
    assert found.tags <= {"h1", "p", "a"}
    assert not [href for href in found.hrefs if "javascript" in href]
    assert found.attributes <= {"id", "href", "rel"}


def test_each_heading_has_an_anchor_of_its_own() -> None:
    """Anchors come from the words, and the same words twice have two."""
    page = render("x", "# Title\n\n## On `a`, and B\n\n## On `a`, and B\n\n### Deep\n")
    assert page.title == "Title"
    assert [heading.anchor for heading in page.headings] == ["on-a-and-b", "on-a-and-b-again"]
    assert 'id="deep"' in page.html


def test_every_file_of_the_manual_is_shown() -> None:
    """No page lies in the folder that the list of the manual does not name."""
    manual = load_manual()
    assert tuple(manual) == ORDER
    files = resources.files("web.pages").joinpath("manual").iterdir()
    assert {entry.name.removesuffix(".md") for entry in files} == set(ORDER)
    assert all(page.title for page in manual.values())
