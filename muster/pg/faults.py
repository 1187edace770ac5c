"""Why the database cannot be used at all: told to the operator at boot, never to a caller."""

from muster.errors import MusterError


class DatabaseFault(MusterError):  # noqa: N818 - a fault of the place, as Refused is an answer
    """The database or its folder is not one that this muster may run on; a restart cannot help."""

    default_code = "database_fault"
