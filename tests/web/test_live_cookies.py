"""The session's cookie at `/live`, beside what else a browser sends."""

import pytest

from muster.principals import Owner
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.server import running_server
from tests.support.visitor import sign_in


@pytest.mark.parametrize(
    "beside",
    ['a={"x": 1, "y": "z"}; {}', "a b; {}", "é=1; {}", 'x="open; {}', "{}; muster_session=other"],
)
async def test_other_cookies_do_not_hide_the_session(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner, beside: str
) -> None:
    """Whatever other programs of the host keep in the browser, a page that opens has its stream."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client:
            own = f"muster_session={visiting.session.cookie}"
            headers = {b"Cookie": beside.replace("{}", own).encode()}
            for path in ("/attention", "/live"):
                async with visiting.client.stream("GET", path, headers=headers) as answer:
                    assert answer.status_code == 200, path
