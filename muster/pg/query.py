"""A SQL constant; what is not one of these cannot be run."""

from typing import LiteralString

import attrs


@attrs.frozen
class Query:
    """One statement with named parameters (`%(name)s`), made once, at module level.

    `%(owner_id)s` and `%(now)s` are always there. tests/test_sql.py PREPAREs every Query of
    muster against the migrated schema, in each of its forms.
    """

    text: LiteralString

    # Where the transaction begins in the statement's own trip, nobody knows the time yet.
    opening: LiteralString = attrs.field(init=False)

    # As a write that the database refuses, with all else of its trip, unless it hits one row.
    exactly_one: LiteralString = attrs.field(init=False)

    @opening.default
    def _opening(self) -> LiteralString:
        return self.text.replace("%(now)s", "(now() + %(clock_offset)s::interval)")

    @exactly_one.default
    def _exactly_one(self) -> LiteralString:
        check: LiteralString = "select 1 / (count(*) = 1)::int from written"
        return f"with written as ({self.text} returning 1) {check}"
