"""The fixtures that every test may use; where they come from is tests/support."""

from tests.support.browser import _browsers, browser
from tests.support.cluster import _pools, cluster, db, own_database, owner
from tests.support.desk import desk
from tests.support.owner_desk import owner_desk
from tests.support.parallel import pytest_collection_modifyitems

__all__ = [
    "_browsers",
    "_pools",
    "browser",
    "cluster",
    "db",
    "desk",
    "own_database",
    "owner",
    "owner_desk",
    "pytest_collection_modifyitems",
]
