"""A Python file as the checks see it: its tree, and what its names stand for."""

import ast
from collections.abc import Iterator

import attrs

Found = Iterator[tuple[int, str]]  # a line, and the sentence about it
Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen(kw_only=True)
class Source:
    """One Python file; `path` is relative to the top, with `/` between its parts."""

    path: str
    text: str
    tree: ast.Module
    imported: dict[str, str]

    def is_in(self, *places: str) -> bool:
        """Say whether the file is one of these, or in one of these folders (`muster/clients/`)."""
        return any(
            self.path.startswith(place) if place.endswith("/") else self.path == place
            for place in places
        )

    @property
    def is_test(self) -> bool:
        """Whether pytest collects it."""
        return self.is_in("tests/") and self.path.rpartition("/")[2].startswith("test_")

    def name_of(self, node: ast.AST) -> str:
        """Spell out a name through the imports: `dt.now` -> `datetime.datetime.now`."""
        match node:
            case ast.Name(id=name):
                return self.imported.get(name, name)
            case ast.Attribute(value=value, attr=name):
                inner = self.name_of(value)
                return f"{inner}.{name}" if inner else ""
            case ast.Subscript(value=value):  # open_memory_channel[int]
                return self.name_of(value)
            case _:
                return ""

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call, with the full name of what is called ('' where that is no name)."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield node, self.name_of(node.func)

    def functions(self) -> Iterator[Function]:
        """Every function, nested ones and methods too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def parse(path: str, text: str) -> Source:
    """Read a file's tree and its imports."""
    tree = ast.parse(text)
    imported = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    imported[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=module, names=aliases):
                for alias in aliases:
                    imported[alias.asname or alias.name] = f"{module}.{alias.name}"
            case _:
                pass
    return Source(path=path, text=text, tree=tree, imported=imported)
