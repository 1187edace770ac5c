"""Who may import whom: the floors of the house, read from the source by an AST walk.

An import inside a function counts like one at the top, since a lazy import that crosses a floor
still crosses it. What stands under `if TYPE_CHECKING:` counts for nothing: it never runs.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("actors", "muster", "web", "bench")

GROUND = frozenset(
    {"muster", *(f"muster.{name}" for name in ("config", "errors", "failure", "ids", "names"))}
    | {
        "muster.allowlists",
        "muster.outcomes",
        "muster.principals",
        "muster.settings",
        "muster.token_use",
    }
)
# Lowest first; rooms of one line are neighbours and do not know each other.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"pg"}),
    frozenset({"accounts", "connections", "credentials"}),
    frozenset({"plugins"}),
    frozenset({"messages"}),
    frozenset({"drafts"}),
    frozenset({"tasks"}),
    frozenset({"attention"}),
    frozenset({"agents"}),
    frozenset({"mirror"}),
    frozenset({"routes"}),
    frozenset({"fleet"}),
    frozenset({"chief"}),
    frozenset({"push"}),
    frozenset({"teams", "inbox"}),
    frozenset({"node"}),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


@attrs.frozen(kw_only=True)
class Import:
    """One imported module of one file; `names` are those taken from it, if any."""

    importer: str
    line: int
    module: str
    names: tuple[str, ...] = ()

    @property
    def top(self) -> str:
        """The first part of the imported module's name."""
        return self.module.partition(".")[0]


def read_sources(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Read each module of the house: `muster.pg.query` -> its text."""
    sources = {}
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            sources[name] = path.read_text(encoding="utf-8")
    return sources


def list_imports(module: str, source: str, modules: Iterable[str] = ()) -> list[Import]:
    """List what a module imports; `from muster.pg import query` is an import of `muster.pg.query`.

    `modules` are all modules of the house, which tell a module from a name within one.
    """
    known = frozenset(modules)
    found: list[Import] = []
    for node in _running(ast.parse(source)):
        match node:
            case ast.Import(names=aliases):
                found.extend(
                    Import(importer=module, line=node.lineno, module=alias.name)
                    for alias in aliases
                )
            case ast.ImportFrom(module=base, names=aliases, level=level):
                origin = "." * level + (base or "")
                submodules = [a.name for a in aliases if f"{origin}.{a.name}" in known]
                names = tuple(a.name for a in aliases if a.name not in submodules)
                found.extend(
                    Import(importer=module, line=node.lineno, module=f"{origin}.{name}")
                    for name in submodules
                )
                if names:
                    found.append(
                        Import(importer=module, line=node.lineno, module=origin, names=names)
                    )
            case _:
                pass
    return found


def find_circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the first circle of a graph as the way round it, or nothing."""
    done: set[str] = set()

    def visit(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        done.add(node)
        for after in sorted(graph.get(node, ())):
            circle = visit(after, [*way, node])
            if circle:
                return circle
        return []

    for node in sorted(graph):
        circle = visit(node, [])
        if circle:
            return circle
    return []


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return which module of the house imports which; a module's own package is no edge."""
    return {
        module: {
            found.module
            for found in list_imports(module, source, sources)
            if found.module in sources and found.module != module
        }
        for module, source in sources.items()
    }


def room_of(module: str) -> str | None:
    """The room that a module of `muster` stands in: `muster.drafts.rules` -> `drafts`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "muster" and parts[1] in FLOOR_OF else None


def furniture_of(module: str) -> str | None:
    """The piece of a room that a module is part of: `muster.drafts.store.claim` -> `store`."""
    parts = module.split(".")
    return parts[2] if room_of(module) and len(parts) > 2 else None


def within(module: str, *packages: str) -> bool:
    """Say whether a module is one of these, or stands below one of them."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(tree):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                for other in child.orelse:
                    yield other
                    yield from _running(other)
            case _:
                yield child
                yield from _running(child)
