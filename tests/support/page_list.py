"""Every page there is, as Quart's own table has them."""

from tests.support.server import Server
from web.app import routes_of
from web.openapi import document
from web.pages.app import make_pages


def list_pages(server: Server) -> list[tuple[str, str]]:
    """Each page's method and path, with 1 for what stands in it."""
    pages = make_pages(server.node, document(routes_of(server.node)))
    found = []
    for rule in pages.url_map.iter_rules():
        path = "".join("1" if dynamic else part for dynamic, part in rule._trace)
        methods = sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
        found += [(method, path.removeprefix("|")) for method in methods]
    assert len(found) > 20
    return found
