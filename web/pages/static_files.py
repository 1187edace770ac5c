"""`/static/…`: the pages' own files, read once, each under an address that changes with it.

A template names a file by `static_url("app.css")`, which ends in a part of its digest: so a browser
may keep it for ever. Files are vendored as they were published, with the version in their name.
"""

import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Final

import attrs

from muster.errors import NotFound
from web.answers import Answer
from web.routes import Asked, Route, Routes

_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "webmanifest": b"application/manifest+json",
    "woff2": b"font/woff2",
}
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")


@attrs.frozen
class StaticFile:
    """One file as it is served."""

    body: bytes
    kind: bytes
    version: str


def load_static() -> Mapping[str, StaticFile]:
    """Every file of the folder `static`, by its name."""
    found: dict[str, StaticFile] = {}
    for entry in resources.files("web.pages").joinpath("static").iterdir():
        _, _, ending = entry.name.rpartition(".")
        if ending in _TYPES:
            body = entry.read_bytes()
            version = hashlib.sha256(body).hexdigest()[:12]
            found[entry.name] = StaticFile(body, _TYPES[ending], version)
    return found


FILES: Final = load_static()


def static_url(name: str) -> str:
    """The address of a file; it is our bug to name one that is not there."""
    return f"/static/{name}?v={FILES[name].version}"


async def serve_static(asked: Asked) -> Answer:
    """Serve one file."""
    file = FILES.get(asked.id)
    if file is None:
        raise NotFound("There is no such file.")
    headers = (
        (b"content-type", file.kind),
        (b"content-length", b"%d" % len(file.body)),
        (b"x-content-type-options", b"nosniff"),
        _FOR_EVER,
    )
    return Answer(200, headers, file.body)


async def serve_worker(_asked: Asked) -> Answer:
    """The service worker, which a browser takes for all pages from the root alone.

    It keeps its address, so a browser asks each time whether it has changed.
    """
    file = FILES["sw.js"]
    headers = (
        (b"content-type", file.kind),
        (b"content-length", b"%d" % len(file.body)),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-cache"),
        (b"service-worker-allowed", b"/"),
    )
    return Answer(200, headers, file.body)


STATIC: Routes = (
    Route("GET", "/static/{id}", serve_static),
    Route("GET", "/sw.js", serve_worker),
)
