"""Why the database cannot be used at all: told to the operator at boot, never to a caller."""

from muster.errors import MusterError


class DatabaseFault(MusterError):
    """The database or its folder is not one that this muster may run on; a restart cannot help."""

    default_code = "database_fault"
