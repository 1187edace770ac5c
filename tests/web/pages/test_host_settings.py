"""The section "Hosts' tokens" of `/settings`, by forms alone."""

import re
from datetime import timedelta

import httpx2
import pytest

from muster.mirror.operations.hosts import list_hosts
from muster.mirror.rules import ListHosts
from tests.support.builders import read_audit
from tests.support.mirror_host import ScriptedHost, new_host, new_session
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, text_of


async def hosts(at: OwnerDesk) -> list[str]:
    """The names of the live hosts."""
    return [host.name for host in await at.db.run(at.owner, list_hosts, ListHosts())]


async def make(at: OwnerDesk, name: str) -> str:
    """Send the form; the token, which is shown with what uses it."""
    answer = await at.visiting.post("/settings/hosts", name=name)
    assert answer.status_code == 200, text_of(answer.text)
    assert answer.headers["cache-control"] == "no-store"
    (token,) = re.findall(r">(mmh_[^<]+)<", answer.text)
    assert f"muster mirror --url {at.server.node.config.public_url}" in answer.text
    assert f"--token-file ~/{name}.token --interactive" in answer.text
    assert "muster mirror hooks install" in answer.text
    return str(token)


async def test_a_hosts_token_is_made_and_revoked(owner_desk: OpenOwnerDesk) -> None:
    """It is shown once and opens the socket; revoked, the program is cut off and the name free."""
    async with owner_desk() as at:
        assert "There is no host yet" in await at.page("/settings")
        token = await make(at, "box")
        page = await at.page("/settings")
        assert token not in page
        assert ">never<" in page
        async with ScriptedHost(at.server.url, token) as host:
            await host.hello()
            await host.show(new_session())
            assert ">online<" in await at.page("/settings")
            answer = await at.visiting.post("/settings/hosts/box/revoke")
            assert (answer.status_code, answer.headers["location"]) == (303, "/settings#hosts")
            assert await host.close_code() == 4401
        assert (await at.visiting.post("/settings/hosts/box/revoke")).status_code == 404
        assert await hosts(at) == []
        assert await make(at, "box") != token
        rows = await read_audit(at.db, at.owner, "host.")
        assert [row.action for row in rows] == ["host.added", "host.retired", "host.added"]


async def test_what_is_no_host_is_refused(owner_desk: OpenOwnerDesk) -> None:
    """A name that is taken or is none makes nothing, and comes back with its fault."""
    async with owner_desk() as at:
        await make(at, "box")
        for status, name in ((409, "box"), (400, "A b"), (400, "")):
            answer: httpx2.Response = await at.visiting.post("/settings/hosts", name=name)
            assert answer.status_code == status, name
            assert "mmh_" not in answer.text.replace("mmh_…", "")
            assert f'value="{name}"' in answer.text
        assert await hosts(at) == ["box"]


@pytest.mark.parametrize("path", ["", "/box/revoke"])
async def test_it_needs_a_fresh_sign_in(owner_desk: OpenOwnerDesk, path: str) -> None:
    """Making and revoking ask to confirm in place, and change nothing until then."""
    async with owner_desk() as at:
        await new_host(at.db, at.owner)
        at.db.clock_offset += timedelta(hours=13)
        answer = await at.visiting.post(f"/settings/hosts{path}", name="other")
        assert answer.status_code == 409
        assert "This needs a fresh sign-in" in answer.text
        assert await hosts(at) == ["box"]
