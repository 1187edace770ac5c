"""What a tool of the chief's is, and a call of one."""

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec

from muster.pg.database import Transaction


@attrs.frozen(kw_only=True)
class Call:
    """A tool call: decoded arguments, and the deployment's own words that no reply may contain."""

    arguments: msgspec.Struct
    deny_words: frozenset[str]


@attrs.frozen(kw_only=True)
class Tool:
    """A tool as it is offered; `run` answers with the members of its result, in one transaction.

    `reserve` is done before `run`, in a transaction of its own that is committed: what it takes of
    a budget stays taken, also when `run` fails.
    """

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Transaction, Call], Awaitable[Mapping[str, object]]]
    reserve: Callable[[Transaction, Call], Awaitable[None]] | None = None
