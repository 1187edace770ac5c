"""The rules about imports, each with its reason; `broken` says which of them one import breaks."""

import sys
from collections.abc import Callable

from tests.support.imports import FLOOR_OF, GROUND, Import, furniture_of, room_of, within

# What a door may call: verbs, words, and the addresses of what has time or a socket.
DOORS_MAY_USE = frozenset({"operations", "rules", "actor", "gateway", "tools"})
# Parts of the standard library through which the world reaches into a rule.
IMPURE = frozenset(
    {"os", "random", "secrets", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time"}
)
RULES_MAY_USE = frozenset({"attrs", "unicodedata2"})
PURE = ("allowlists", "errors", "failure", "ids", "names", "outcomes", "token_use")
RULES_MAY_USE_OF_OURS = frozenset({f"muster.{n}" for n in PURE})
DEAD = {
    "asyncio": "trio",
    "httpx": "httpx2, which is maintained",
    "requests": "httpx2",
    "triopg": "muster.pg",
    "unittest.mock": "the real thing, or a fake that behaves",
    "mock": "the real thing, or a fake that behaves",
}
PSYCOPG_IS_KNOWN_TO = frozenset({"muster.pg.driver", "muster.pg.pipeline"})
# Ways to call another machine.
DIALLING = frozenset(
    {"ftplib", "http.client", "httpx2", "imaplib", "poplib", "smtplib", "trio_websocket"}
    | {"urllib.request", "xmlrpc.client"}
)


def broken(found: Import) -> list[str]:
    """List what is wrong with one import, as sentences that give the reason."""
    reasons = (rule(found) for rule in RULES)
    return [
        f"{found.importer}:{found.line} imports {found.module}: {reason}"
        for reason in reasons
        if reason
    ]


def _names_in_full(found: Import) -> str | None:
    if found.module.startswith("."):
        return "write the whole name, so that a search for a module finds who uses it"
    return None


def _nothing_dead(found: Import) -> str | None:
    for module, instead in DEAD.items():
        if within(found.module, module):
            return f"use {instead}"
        if found.names and f"{found.module}.{found.names[0]}" == module:
            return f"use {instead}"
    return None


def _psycopg_has_one_importer(found: Import) -> str | None:
    if found.top == "psycopg" and found.importer not in PSYCOPG_IS_KNOWN_TO:
        return (
            "only muster.pg.driver and its pipeline know psycopg: what they lean on is private and"
            " pinned by contract tests, and a second way to a connection is a way around the"
            " principal"
        )
    return None


def _actors_stand_alone(found: Import) -> str | None:
    if within(found.importer, "actors") and found.top in {"muster", "web", "bench", "tests"}:
        return "actors knows nothing of ours, so that it can be lifted out as a library"
    return None


def _nobody_imports_tests(found: Import) -> str | None:
    if found.top in {"tests", "bench"} and found.top != found.importer.partition(".")[0]:
        return "tests and bench are not in the wheel"
    return None


def _ground_is_lowest(found: Import) -> str | None:
    if found.importer in GROUND and found.top in {"muster", "web", "actors"}:
        return None if found.module in GROUND else "the ground floor stands on nothing of ours"
    return None


def _floors_go_down(found: Import) -> str | None:
    importer, imported = room_of(found.importer), room_of(found.module)
    if importer is None or imported is None or importer == imported:
        return None
    if FLOOR_OF[imported] < FLOOR_OF[importer]:
        return None
    return (
        f"{importer} may use lower floors alone, and {imported} is no lower; a verb lives in the"
        " highest room that it touches, so move the verb up, or the shared fact down"
    )


def _store_is_private(found: Import) -> str | None:
    if furniture_of(found.module) == "store" and room_of(found.importer) != room_of(found.module):
        return "a room's SQL is its own: call one of its operations, which also decide and lock"
    return None


def _rules_are_pure(found: Import) -> str | None:
    if furniture_of(found.importer) != "rules":
        return None
    own = within(found.module, f"muster.{room_of(found.importer)}.rules")
    if own or found.module in RULES_MAY_USE_OF_OURS or found.top in RULES_MAY_USE:
        return None
    if found.top in sys.stdlib_module_names and found.top not in IMPURE:
        return None
    return (
        "rules decide from what they are given: no clock, no chance, no database, no Trio; only"
        " then do property tests say something (stdlib, attrs, and what is pure of the ground)"
    )


def _store_only_reads_and_writes(found: Import) -> str | None:
    if furniture_of(found.importer) != "store":
        return None
    ours = found.top in {"muster", "actors", "web"}
    allowed = found.module in GROUND or within(found.module, "muster.pg")
    if found.top == "trio" or (
        ours and not allowed and furniture_of(found.module) not in {"rules", "store"}
    ):
        return "a store holds SQL and the function that runs it; it uses rules and muster.pg alone"
    return None


def _operations_have_no_time(found: Import) -> str | None:
    if furniture_of(found.importer) == "operations" and found.top in {"trio", "actors"}:
        return (
            "an operation runs inside one transaction, and nothing but SQL may wait there; what"
            " has time or a mailbox belongs into actor.py"
        )
    return None


def _doors_have_no_sql(found: Import) -> str | None:
    if not within(found.importer, "web") or found.top != "muster":
        return None
    piece = furniture_of(found.module)
    if "Query" in found.names:
        return "no SQL in a door: a handler is principal, body, one operation, render"
    if found.module in GROUND or found.module == "muster.pg.database":
        return None
    if within(found.module, "muster.node") or piece in DOORS_MAY_USE:
        return None
    if room_of(found.module) and not piece and set(found.names) <= DOORS_MAY_USE:
        return None
    return (
        "web uses operations, rules, actors, gateways and tools of a room, node and the ground"
        " floor; never a store or SQL, or a second door would have to repeat what this one does"
    )


def _clients_are_another_program(found: Import) -> str | None:
    if not within(found.importer, "muster.clients"):
        return None
    if found.top == "web" or (found.top == "muster" and not within(found.module, "muster.clients")):
        return (
            "a client stands on the other side of the wire: what it imported of the server, a"
            " plugin author elsewhere could not have"
        )
    return None


def _only_commands_wire(found: Import) -> str | None:
    importer = found.importer
    if within(importer, "muster.commands", "bench"):
        return None
    reason = "only muster/commands wires the parts together; pass it in from there"
    if found.top == "web" and not within(importer, "web"):
        return reason
    if within(found.module, "muster.node") and not within(importer, "muster.node", "web"):
        return reason
    if within(found.module, "muster.clients") and not within(importer, "muster.clients"):
        return reason
    if within(found.module, "muster.commands") and importer != "muster.__main__":
        return "nobody stands above muster/commands but muster/__main__.py"
    return None


# What an owner is pushed goes out from here, to the addresses of their own devices alone.
MAY_DIAL = "muster.push.dial"


def _server_calls_nobody(found: Import) -> str | None:
    if within(found.importer, "muster.clients", "muster.commands", "bench", MAY_DIAL):
        return None
    taken = {found.module, *(f"{found.module}.{name}" for name in found.names)}
    dialled = any(within(module, way) for module in taken for way in DIALLING)
    by_trio = found.module == "trio" and any(name.startswith("open_") for name in found.names)
    if dialled or by_trio:
        return (
            "plugins and agents call the server; it calls its database and, from muster.push.dial,"
            " the devices that an owner is pushed to"
        )
    return None


RULES: tuple[Callable[[Import], str | None], ...] = (
    _names_in_full,
    _nothing_dead,
    _psycopg_has_one_importer,
    _actors_stand_alone,
    _nobody_imports_tests,
    _ground_is_lowest,
    _floors_go_down,
    _store_is_private,
    _rules_are_pure,
    _store_only_reads_and_writes,
    _operations_have_no_time,
    _doors_have_no_sql,
    _clients_are_another_program,
    _only_commands_wire,
    _server_calls_nobody,
)
