"""Query strings, decoded into the shape that their route names.

What is unknown or stands twice is refused, as in a body; a number is written in digits.
"""

from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from muster.errors import Invalid
from web.bodies import explain

Shape = TypeVar("Shape", bound=msgspec.Struct)

FIELDS_MAX = 20


def decode_query(raw: bytes, shape: type[Shape]) -> Shape:
    """Read a query string as `shape`, or raise Invalid naming the field."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:
        raise Invalid("The query is not made of names and values in UTF-8.") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise Invalid(f"{name[:100]!r} stands twice in the query.", field=name[:100])
        fields[name] = value
    try:
        return msgspec.convert(fields, shape, strict=False)
    except msgspec.ValidationError as problem:
        raise explain(str(problem)) from None
