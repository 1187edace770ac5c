"""`/docs` and `/docs/api`: the manual and the reference of the API, for everybody."""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.errors import NotFound
from web.openapi import Json
from web.pages.api_reference import read_document
from web.pages.manual_pages import load_manual
from web.pages.visits import Guest, for_guests, show


def make_docs(document: Json) -> Blueprint:
    """The pages of the manual and of `document`, which is that of the routes of this server."""
    docs = Blueprint("docs", __name__)
    manual = load_manual()
    pages = tuple(manual.values())
    reference = read_document(document)

    @for_guests(docs, "GET", "/docs")
    async def contents(_guest: Guest) -> ResponseReturnValue:
        return await show("docs/contents.html", pages=pages)

    @for_guests(docs, "GET", "/docs/api")
    async def api(_guest: Guest) -> ResponseReturnValue:
        return await show("docs/api.html", pages=pages, reference=reference)

    @for_guests(docs, "GET", "/docs/<name>")
    async def page(_guest: Guest, name: str) -> ResponseReturnValue:
        if name not in manual:
            raise NotFound("There is no such page in the manual.")
        return await show("docs/page.html", pages=pages, page=manual[name])

    return docs
