"""Members of JSON objects that others wrote: what is of another kind counts as missing."""

from collections.abc import Mapping
from typing import Any


def read_object(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The member that is an object; an empty one without it."""
    value = members.get(name)
    return value if isinstance(value, dict) else {}


def read_objects(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in the member that is a list; none without it."""
    values = members.get(name)
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []
