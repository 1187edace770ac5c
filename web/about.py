"""What a route tells of itself: from it come `/openapi.json`, `/docs/api` and a test.

It stands beside the handler and names the very types that the handler decodes and answers with, so
that the document cannot say another thing than the code. What all routes of a door have in common
(401, 413, 500 and the like) is written once, in `web.openapi`, and not at each route.
"""

import enum

import attrs
import msgspec


class Taken(enum.Enum):
    """A credential that a route takes, as the document names it."""

    PLUGIN = "plugin"
    PERSONAL = "personal"
    HOOK = "hook"


@attrs.frozen(kw_only=True)
class Says:
    """One status that a route answers with, and when.

    An error names its slugs in `codes`; the others have a `shape`, or no body (`bodiless`).
    """

    status: int
    when: str
    shape: type[msgspec.Struct] | None = None
    example: msgspec.Struct | None = None
    codes: tuple[str, ...] = ()
    retry_after: bool = False
    bodiless: bool = False


@attrs.frozen(kw_only=True)
class Asks:
    """A parameter of the query; all of them may be left out."""

    name: str
    meaning: str
    type: type = str


@attrs.frozen(kw_only=True)
class About:
    """A route for a program's author. `body_optional` means that an empty body is taken too.

    `id_meaning` tells what stands in the place of `{id}`, which is an integer.
    """

    name: str
    summary: str
    text: str = ""
    takes: tuple[Taken, ...] = ()
    body: type[msgspec.Struct] | None = None
    body_example: msgspec.Struct | None = None
    body_optional: bool = False
    id_meaning: str = ""
    query: tuple[Asks, ...] = ()
    says: tuple[Says, ...]
