"""What a new owner is told to do next, by what they really have."""

import re

import pytest

from muster.agents.operations import accept_gateway
from muster.agents.rules import Accept
from muster.messages.operations import Post, post
from muster.principals import Muster, Owner
from tests.support.builders import make_chief, make_plugin, revoke
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.owner_desk import text_of
from tests.support.server import running_server
from tests.support.visitor import Visiting, sign_in

PAGES = (
    "/attention?tab=asks",
    "/attention?tab=drafts",
    "/messages",
    "/plugins",
    "/chief",
    "/tasks",
)
STEPS = ("Make a plugin", "Start a chief", "Send a first message")
LEFT = "What to do next"


async def ticked(visiting: Visiting, path: str) -> list[str]:
    """The steps that a page shows as done."""
    page = (await visiting.get(path)).text
    return re.findall(r"<b>([^<]*)</b> <span class=\"chip good\">✓ done", page)


async def test_the_next_steps_follow_what_the_owner_has(
    db: SpiedDatabase, cluster: Cluster, owner: Owner
) -> None:
    """Each page that is empty says the same three steps, ticks what is done, and ends with them."""
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client:
            for path in PAGES:
                said = text_of((await visiting.get(path)).text)
                places = [said.index(step) for step in STEPS]
                assert places == sorted(places), path
                assert await ticked(visiting, path) == []
            plugin = await make_plugin(db, owner, "inbox")
            for path in PAGES:
                assert await ticked(visiting, path) == ["Make a plugin"], path
            page = (await visiting.get("/attention")).text
            assert "cat inbox.token" in page
            assert f"{server.node.config.public_url}/plugin/v1/messages" in page
            chief = await make_chief(db, owner, "reader")
            page = (await visiting.get("/attention")).text
            assert "reader is made, and has not connected yet" in page
            assert "--token-file reader.token" in page
            accept = Accept(agent_id=chief.agent_id, node="here")
            await db.run(Muster(owner_id=owner.owner_id), accept_gateway, accept)
            for path in PAGES:
                assert await ticked(visiting, path) == list(STEPS[:2]), path
            await db.run(plugin, post, Post(external_id="first", body="Noon?"))
            for path in PAGES:
                assert LEFT not in (await visiting.get(path)).text, path
            await revoke(db, owner, plugin)
            assert await ticked(visiting, "/attention") == list(STEPS[1:])


@pytest.mark.parametrize("plugins", ["0", "1"])
async def test_the_first_step_is_one_that_can_be_done(
    db: SpiedDatabase, cluster: Cluster, owner: Owner, plugins: str
) -> None:
    """Where plugins are off no page that is not there is linked; the step says how to have them."""
    async with running_server(db, cluster.app_url, MUSTER_PLUGINS=plugins) as server:
        visiting = await sign_in(server, owner)
        async with visiting.client:
            page = (await visiting.get("/attention")).text
    assert ("MUSTER_PLUGINS=1 muster serve" in page) is (plugins == "0")
    assert ('href="/plugins' in page) is (plugins == "1")
