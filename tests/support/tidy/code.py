"""What holds for every Python file: calls that have a better way, and exceptions that vanish."""

import ast
from collections.abc import Callable

import attrs

from tests.support.tidy.source import Found, Function, Source
from tests.support.tidy.text import NO_SQL_CLOCK, SQL_CLOCK

Check = Callable[[Source], Found]
FUNCTION_LINES_MAX = 60
# A child's crash becomes a report there: of actors, of a connection, of a request's handler.
MAY_CATCH_ALL = (
    "actors/supervisor.py",
    "web/serve.py",
    "web/connection.py",
    "web/upgraded.py",
    "web/mcp/results.py",
)
MAY_ASK_FOR_TIME = ("muster/pg/session.py", "muster/pg/query.py")
MAY_CATCH_CANCELLED = ("actors/supervisor.py", "muster/pg/driver.py")


@attrs.frozen(kw_only=True)
class Ban:
    """A call that has a better way, and where it stands all the same."""

    instead: str
    fine_in: tuple[str, ...] = ()


_CLOCK = Ban(
    instead="tx.now is the only wall clock (trio.current_time() for how long something takes)",
    fine_in=("actors/log.py", "muster/clients/", "bench/", "tests/"),
)
_SLEEP = Ban(
    instead="it stops every task: trio.sleep under a deadline, or an event; in tests until()",
    fine_in=("tests/support/waiting.py",),
)
_SHELL = Ban(instead="trio.run_process, with a list and a deadline")
_UNSUPERVISED = Ban(instead="a nursery or the tree: a task that nobody supervises dies unseen")
BANNED = {
    "time.sleep": _SLEEP,
    "time.time": _CLOCK,
    "time.time_ns": _CLOCK,
    "time.localtime": _CLOCK,
    "time.gmtime": _CLOCK,
    "datetime.datetime.now": _CLOCK,
    "datetime.datetime.utcnow": _CLOCK,
    "datetime.datetime.today": _CLOCK,
    "datetime.date.today": _CLOCK,
    "os.system": _SHELL,
    "os.popen": _SHELL,
    "trio.lowlevel.spawn_system_task": _UNSUPERVISED,
    "breakpoint": Ban(instead="a test that shows it"),
    "queue.SimpleQueue": Ban(instead="trio.open_memory_channel with a bound"),
    "print": Ban(
        instead="stdout belongs to the command line: return it, or report it to the log",
        fine_in=("muster/commands/", "muster/clients/", "bench/", "tests/__main__.py"),
    ),
}


def check_function_length(source: Source) -> Found:
    """A function has at most 60 lines; a class as a whole may have more."""
    for function in source.functions():
        lines = _lines_of(function)
        if lines > FUNCTION_LINES_MAX:
            yield function.lineno, f"{function.name} has {lines} lines: split it where it changes"


def check_banned(source: Source) -> Found:
    """Calls that block, look at a clock or leave the tree, with what to use in their place."""
    for call, name in source.calls():
        ban = BANNED.get(name)
        if ban and not source.is_in(*ban.fine_in):
            yield call.lineno, f"{name}: {ban.instead}"


def check_unbounded(source: Source) -> Found:
    """Every queue has a bound."""
    for call, name in source.calls():
        size = [*call.args, *(word.value for word in call.keywords)]
        if name.endswith("open_memory_channel") and any(_is_infinite(source, one) for one in size):
            yield call.lineno, "a channel without a bound hides who is too slow: give it a size"
        if name == "queue.Queue" and not size:
            yield call.lineno, "a queue without a bound hides who is too slow: give it a size"


def check_asyncio(source: Source) -> Found:
    """No asyncio anywhere, in tests neither."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
            case _:
                continue
        if any(module.partition(".")[0] == "asyncio" for module in modules):
            yield node.lineno, "asyncio: this house runs on Trio"


def check_swallowed(source: Source) -> Found:
    """`except Exception` stands in the supervisor alone, and a cancel is never a crash."""
    for node in ast.walk(source.tree):
        match node:
            case ast.ExceptHandler(type=None):
                yield node.lineno, "a bare except swallows cancels: name what can happen"
            case ast.ExceptHandler(type=ast.expr() as kinds):
                for kind in kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]:
                    yield from _judge_caught(source, node, source.name_of(kind))
            case ast.Call(args=kinds_) if source.name_of(node.func) == "contextlib.suppress":
                for kind in kinds_:
                    name = source.name_of(kind)
                    if name in {"Exception", "BaseException", "trio.Cancelled"}:
                        yield node.lineno, f"suppress({name}) swallows endings: name what happens"
            case _:
                pass


def check_stub(source: Source) -> Found:
    """Nothing is promised and not there."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
                if name == "NotImplementedError":
                    yield node.lineno, "a stub: build it, or leave it out (a Protocol needs none)"
            case ast.Assert(test=ast.Constant(value=value)) if value:
                yield node.lineno, "an assertion that cannot fail"
            case _:
                pass


def check_sql_clock(source: Source) -> Found:
    """No SQL of muster but what opens a transaction asks for the time."""
    if not source.is_in("muster/") or source.is_in(*MAY_ASK_FOR_TIME):
        return
    for node in _strings(source.tree):
        found = SQL_CLOCK.search(str(node.value))
        if found:
            yield node.lineno, f"{found[0]}: {NO_SQL_CLOCK}"


def _judge_caught(source: Source, handler: ast.ExceptHandler, name: str) -> Found:
    if name == "Exception" and source.path not in MAY_CATCH_ALL:
        yield (
            handler.lineno,
            f"except Exception stands in {', '.join(MAY_CATCH_ALL)} alone: name what can happen",
        )
    if name == "trio.Cancelled" and not source.is_in(*MAY_CATCH_CANCELLED):
        yield handler.lineno, "a cancel is not yours to catch: use a finally, or a shield"
    if name == "BaseException" and not _raises_again(source, handler):
        yield handler.lineno, "except BaseException is there to repair and to raise again"


def _raises_again(source: Source, handler: ast.ExceptHandler) -> bool:
    """Whether the handler raises, or keeps the error in a name that its function raises later."""
    kept = set()
    for node in ast.walk(handler):
        match node:
            case ast.Raise():
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=value)):
                if value == handler.name:
                    kept.add(name)
            case _:
                pass
    around = [
        function
        for function in source.functions()
        if function.lineno <= handler.lineno <= (function.end_lineno or 0)
    ]
    return any(
        isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id in kept
        for function in around
        for node in ast.walk(function)
    )


def _lines_of(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _is_infinite(source: Source, size: ast.expr) -> bool:
    match size:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant()]):
            return True
        case _:
            return source.name_of(size) == "math.inf"


def _strings(tree: ast.Module) -> list[ast.Constant]:
    """The string constants that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


CHECKS: tuple[Check, ...] = (
    check_function_length,
    check_banned,
    check_unbounded,
    check_asyncio,
    check_swallowed,
    check_stub,
    check_sql_clock,
)
