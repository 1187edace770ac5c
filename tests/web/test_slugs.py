"""The catalogue of error slugs, beside the code that answers with them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
import web
from web.slugs import BY_NAME, SLUGS

TOP = Path(muster.__file__).parent.parent
DOORS = [Path(web.__file__).parent, Path(muster.__file__).parent]
# Programs on the other side of the wire, and what the command line alone says.
ELSEWHERE = ("muster/clients/", "muster/commands/", "muster/__main__.py")
NEVER_ON_THE_WIRE = {
    "bad_configuration": "a boot error, and the command line's",
    "address_in_use": "a boot error",
    "database_fault": "a boot error",
    "failed": "of MusterError, which is never raised itself",
}
# The position of the slug among the arguments of what writes an error by hand.
SENDERS = {"send_error": 2, "refuse_socket": 2, "error_body": 0}


def slugs_in(tree: ast.Module) -> Iterator[str]:
    """Every slug that a module gives to an error."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="code", value=ast.Constant(value=str(slug))) if slug:
                yield slug
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(slug))):
                if name == "default_code":
                    yield slug
            case ast.Assign(targets=[ast.Name(id="default_code")], value=ast.Constant(value=slug)):
                yield str(slug)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in SENDERS:
                if len(arguments) > SENDERS[name]:
                    slug_of = arguments[SENDERS[name]]
                    if isinstance(slug_of, ast.Constant):
                        yield str(slug_of.value)


def modules() -> list[Path]:
    """The modules of the server."""
    found = [path for folder in DOORS for path in folder.rglob("*.py")]
    return [path for path in found if not path.relative_to(TOP).as_posix().startswith(ELSEWHERE)]


def test_every_slug_in_the_code_is_in_the_catalogue() -> None:
    """No door answers with a slug that authors are not told of."""
    found: dict[str, str] = {}
    for path in modules():
        for slug in slugs_in(ast.parse(path.read_text())):
            found[slug] = path.relative_to(TOP).as_posix()
    assert len(found) > 20
    assert not [
        f"{place} answers {slug!r}: add it to web/slugs.py"
        for slug, place in found.items()
        if slug not in BY_NAME and slug not in NEVER_ON_THE_WIRE
    ]


def test_the_catalogue_names_nothing_that_is_gone() -> None:
    """Each slug of the catalogue stands in the code of a door."""
    code = "".join(path.read_text() for path in modules() if path.name != "slugs.py")
    phrases = {"method_not_allowed"}  # made of the status's phrase
    assert not [slug for slug in BY_NAME if f'"{slug}"' not in code and slug not in phrases]


def test_the_catalogue_is_in_order_and_plain() -> None:
    """Slugs stand in alphabetical order, once each."""
    names = [slug.name for slug in SLUGS]
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    "code",
    [
        'raise Refused("no", code="new_slug")',
        'class New(Refused):\n    default_code = "new_slug"',
        'await send_error(send, 401, "new_slug", "No.")',
        'error_body("new_slug", "No.")',
    ],
)
def test_a_slug_is_seen_wherever_it_is_given(code: str) -> None:
    """The search finds each way in which code names a slug."""
    source = code if code.startswith("class") else f"async def handler():\n    {code}"
    assert list(slugs_in(ast.parse(source))) == ["new_slug"]
