"""The floors of the house: who may import whom, no circles, and a wheel that asks for it all."""

import importlib.metadata
import re
import sys
import tomllib

import pytest

from tests.support import floors
from tests.support.floors import broken
from tests.support.imports import (
    FLOORS,
    PACKAGES,
    ROOT,
    find_circle,
    import_graph,
    list_imports,
    read_sources,
    within,
)

# Each rule with an import that breaks it: (rule, importer, what it says).
PLANTED = [
    ("_names_in_full", "muster.drafts.operations", "from .rules import Draft"),
    ("_nothing_dead", "muster.node.tree", "import asyncio"),
    ("_nothing_dead", "bench.claim", "from asyncio import sleep"),
    ("_nothing_dead", "muster.clients.plugin.wire", "import httpx"),
    ("_nothing_dead", "web.auth", "from unittest import mock"),
    ("_psycopg_has_one_importer", "muster.pg.database", "from psycopg import errors"),
    ("_actors_stand_alone", "actors.log", "from muster.errors import Invalid"),
    ("_nobody_imports_tests", "muster.node.tree", "from tests.support import cluster"),
    ("_ground_is_lowest", "muster.errors", "from muster.pg.query import Query"),
    ("_ground_is_lowest", "muster.config", "import muster.accounts.operations"),
    ("_floors_go_down", "muster.pg.audit", "from muster.drafts.rules import Draft"),
    ("_floors_go_down", "muster.messages.operations", "from muster.drafts import operations"),
    ("_floors_go_down", "muster.accounts.operations", "import muster.credentials.operations"),
    ("_floors_go_down", "muster.drafts.rules", "def f():\n    import muster.chief.rules"),
    ("_store_is_private", "muster.chief.operations", "from muster.drafts import store"),
    ("_store_is_private", "muster.chief.operations", "from muster.drafts.store import find"),
    ("_rules_are_pure", "muster.drafts.rules", "import trio"),
    ("_rules_are_pure", "muster.drafts.rules", "import time"),
    ("_rules_are_pure", "muster.drafts.rules", "from muster.pg.database import Transaction"),
    ("_rules_are_pure", "muster.drafts.rules.claim", "from muster.principals import Owner"),
    ("_store_only_reads_and_writes", "muster.drafts.store", "from muster.drafts import operations"),
    ("_store_only_reads_and_writes", "muster.drafts.store", "import trio"),
    ("_operations_have_no_time", "muster.drafts.operations", "import trio"),
    ("_operations_have_no_time", "muster.drafts.operations.claim", "from actors import Address"),
    ("_doors_have_no_sql", "web.plugin_api", "from muster.pg.query import Query"),
    ("_doors_have_no_sql", "web.plugin_api", "from muster.drafts import store"),
    ("_doors_have_no_sql", "web.plugin_api", "from muster.pg.driver import connect"),
    ("_doors_have_no_sql", "web.plugin_api", "from muster.chief.fence import render"),
    ("_clients_are_another_program", "muster.clients.mail", "from muster.config import Config"),
    ("_clients_are_another_program", "muster.clients.mail", "from muster import ids"),
    ("_clients_are_another_program", "muster.clients.mail", "import web.errors"),
    ("_only_commands_wire", "muster.node.tree", "from web.serve import serve"),
    ("_only_commands_wire", "muster.chief.actor", "from muster.node import fanout"),
    ("_only_commands_wire", "web.plugin_api", "from muster.clients.plugin import wire"),
    ("_only_commands_wire", "muster.node.tree", "from muster.commands import session"),
    ("_server_calls_nobody", "muster.chief.actor", "import httpx2"),
    ("_server_calls_nobody", "muster.push.actor", "import httpx2"),
    ("_server_calls_nobody", "muster.node.tree", "from urllib import request"),
    ("_server_calls_nobody", "web.plugin_api", "from trio import open_tcp_stream"),
]
FINE = [
    ("muster.drafts.rules", "import enum\nimport attrs\nfrom muster.outcomes import Changed"),
    ("muster.drafts.operations", "from muster.messages import operations as messages"),
    ("muster.drafts.operations", "from muster.drafts import rules, store"),
    ("muster.drafts.store", "from muster.pg.query import Query\nfrom muster.messages import rules"),
    ("muster.chief.actor", "import trio\nfrom actors import Actor\nimport muster.errors"),
    ("muster.accounts.passwords", "import trio\nimport argon2"),
    ("web.plugin_api", "from muster.drafts import operations\nfrom muster.node import tree"),
    ("web.plugin_api", "from muster.pg.database import Database"),
    ("muster.commands.serve", "from web import serve\nfrom muster.node import tree"),
    ("muster.__main__", "from muster.commands.exits import Exit"),
    ("muster.clients.mail", "import httpx2\nfrom muster.clients.plugin import wire"),
    ("muster.pg.driver", "import psycopg"),
    ("muster.push.dial", "import httpx2"),
    (
        "muster.drafts.operations",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import muster.chief.actor",
    ),
]
MODULES = (
    *(f"muster.{room}.{piece}" for rooms in FLOORS for room in rooms for piece in ("store",)),
    *("muster.drafts.rules", "muster.drafts.operations", "muster.messages.rules", "web.serve"),
    *("muster.messages.operations", "muster.ids", "muster.node.tree", "muster.node.fanout"),
)


@pytest.mark.rule(1)
def test_nobody_imports_from_a_higher_floor() -> None:
    """Every import in the house keeps the rules about floors, doors, clients and purity.

    One of them keeps all that could call a plugin out of the server.
    """
    sources = read_sources()
    wrong = [
        sentence
        for module, source in sources.items()
        for found in list_imports(module, source, sources)
        for sentence in broken(found)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.rule(1)
def test_the_server_dials_nobody() -> None:
    """Outside of clients and commands nothing calls a function that opens a connection."""
    dials = re.compile(r"\b(open_tcp_stream|open_ssl_over_tcp_stream|open_unix_socket)\b")
    assert dials.search("await trio.open_tcp_stream(host, port)")
    wrong = [
        module
        for module, source in read_sources(("actors", "muster", "web")).items()
        if not within(module, "muster.clients", "muster.commands") and dials.search(source)
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """There is no circle of imports, lazy ones included, so each module is understood by itself."""
    circle = find_circle(import_graph(read_sources()))
    assert not circle, f"{' -> '.join(circle)}: move what both need into a lower module"


def test_the_wheel_asks_for_what_it_imports() -> None:
    """A library that actors, muster or web imports is a dependency in pyproject.toml.

    It would otherwise be there by luck, as somebody else's dependency.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {_normal(re.split(r"[\[<>=!~ ;]", line)[0]) for line in project["dependencies"]}
    providers = importlib.metadata.packages_distributions()
    sources = read_sources(("actors", "muster", "web"))
    wrong = {
        f"{module}:{found.line} imports {found.module}, which no dependency of ours provides"
        for module, source in sources.items()
        for found in list_imports(module, source, sources)
        if found.top not in {*PACKAGES, "", "tests"} | sys.stdlib_module_names
        and not {_normal(name) for name in providers.get(found.top, ())} & asked
    }
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize(("rule", "importer", "source"), PLANTED)
def test_a_planted_import_is_caught(rule: str, importer: str, source: str) -> None:
    """Each rule about imports catches what it is there for, and says why."""
    sentences = [getattr(floors, rule)(found) for found in list_imports(importer, source, MODULES)]
    assert any(sentences)
    assert [line for found in list_imports(importer, source, MODULES) for line in broken(found)]


@pytest.mark.parametrize(("importer", "source"), FINE)
def test_a_fine_import_is_let_be(importer: str, source: str) -> None:
    """No rule about imports complains about what the plan of the house allows."""
    found = list_imports(importer, source, MODULES)
    assert found
    assert [line for one in found for line in broken(one)] == []


def test_every_rule_has_a_planted_import() -> None:
    """No rule about imports is dead: each has an import above that breaks it."""
    planted = {rule for rule, _, _ in PLANTED}
    assert {rule.__name__ for rule in floors.RULES} == planted


def test_a_planted_circle_is_caught() -> None:
    """A circle through three modules is found, also when one of its imports is lazy."""
    sources = {
        "muster.a": "import muster.b",
        "muster.b": "def f():\n    from muster import c",
        "muster.c": "from muster.a import x",
        "muster.d": "import muster.a",
    }
    circle = find_circle(import_graph(sources))
    assert circle == ["muster.a", "muster.b", "muster.c", "muster.a"]
    del sources["muster.c"]
    assert find_circle(import_graph(sources)) == []


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
