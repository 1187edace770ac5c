"""A SQL constant; what is not one of these cannot be run."""

from typing import LiteralString

import attrs


@attrs.frozen
class Query:
    """One statement with named parameters (`%(name)s`), made once, at module level.

    `%(owner_id)s` and `%(now)s` are always there. tests/test_sql.py PREPAREs every Query of
    muster against the migrated schema.
    """

    text: LiteralString
