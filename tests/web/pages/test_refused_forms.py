"""A form that is refused comes back with what was typed, and the fault beside the field."""

import re
from html import unescape
from pathlib import Path

import pytest
import trio

import web.pages
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.owner_desk import OpenOwnerDesk
from tests.support.server import running_server
from tests.support.visitor import page_client

N = "/settings/notifications"
# A path, its fields, the field that is to blame, and the id of its element.
REFUSED: tuple[tuple[str, dict[str, str], str, str], ...] = (
    ("/settings/tokens", {"name": "A b", "expires": "90d"}, "name", "token-name"),
    ("/settings/tokens", {"name": "kept", "expires": "soon"}, "expires", "token-expires"),
    ("/settings/agents", {"name": "A b", "part": "agent"}, "name", "agent-name"),
    ("/settings/time-zone", {"time_zone": "Nowhere/Land"}, "time_zone", "time-zone-name"),
    ("/settings/password", {"password": "short"}, "password", "new-password"),
    (f"{N}/webhook", {"name": "hook", "url": "http://far.test/"}, "url", "webhook-url"),
    (f"{N}/ntfy", {"name": "kept", "url": "https://n.test", "topic": "a b"}, "topic", "ntfy-topic"),
    (f"{N}/quiet-hours", {"from": "25:00", "until": "07:00"}, "from", "quiet-from"),
    ("/plugins", {"name": "A b", "label": "Kept", "scope": "mine"}, "name", "name"),
    ("/tasks", {"title": " ", "body": "kept <b>"}, "title", "title"),
    ("/tasks", {"title": "kept", "repository": "none"}, "repository", "repository"),
)  # fmt: skip


@pytest.mark.parametrize(("path", "form", "field", "element"), REFUSED)
async def test_a_refused_form_comes_back(
    owner_desk: OpenOwnerDesk, path: str, form: dict[str, str], field: str, element: str
) -> None:
    """What was typed is there, but for passwords; the fault stands at its field, to be heard."""
    async with owner_desk() as at:
        answer = await at.visiting.post(path, **form)
        assert answer.status_code == 400
        page = answer.text
        (tag,) = re.findall(rf'<(?:input|select|textarea) id="{element}"[^>]*>', page)
        assert 'aria-invalid="true"' in tag
        (described,) = re.findall(r'aria-describedby="([^"]*)"', tag)
        assert f"{element}-fault" in described.split()
        assert page.count(f'<p class="fault" role="alert" id="{element}-fault">') == 1
        assert page.count('role="alert"') - page.count("data-passkey-fault") == 1
        for name, value in form.items():
            if name in ("expires", "part", "time_zone"):
                continue
            shown = f'value="{value}"' in page or f"\n{value}</textarea>" in unescape(page)
            assert shown is (name != "password"), (name, field)


async def test_what_no_field_is_to_blame_for_is_told_on_top(owner_desk: OpenOwnerDesk) -> None:
    """A name that is taken leaves the form as it was and is told at the top of the page."""
    async with owner_desk() as at:
        form = {"name": "box", "scope": "write", "expires": "90d"}
        await at.visiting.post("/settings/tokens", **form)
        answer = await at.visiting.post("/settings/tokens", **form)
        assert answer.status_code == 409
        assert '<div class="banner bad" role="alert"><p>Not done: There is a token' in answer.text
        assert 'value="box"' in answer.text
        assert '<option value="write" selected>' in answer.text
        assert '<option value="90d" selected>' in answer.text


async def test_no_secret_is_sent_back(owner_desk: OpenOwnerDesk) -> None:
    """The access token of a topic that is refused has to be typed again."""
    async with owner_desk() as at:
        form = {"name": "n", "url": "https://n.test", "topic": "a b", "token": "tk_secret"}
        answer = await at.visiting.post(f"{N}/ntfy", **form)
        assert answer.status_code == 400
        assert "tk_secret" not in answer.text
        assert '<details id="notify-ntfy" open>' in answer.text


async def test_a_task_keeps_what_was_written(owner_desk: OpenOwnerDesk) -> None:
    """Of the forms of a task only the one that was refused comes back filled."""
    async with owner_desk() as at:
        made = await at.visiting.post("/tasks", title="Fix it", body="The gate.")
        path = made.headers["location"]
        sent = {"title": " ", "body": "A long new text.", "repository": "", "model": ""}
        answer = await at.visiting.post(f"{path}/edit", **sent)
        assert answer.status_code == 400
        assert "\nA long new text.</textarea>" in answer.text
        assert '<details id="edit" open>' in answer.text
        assert '<details id="merge">' in answer.text
        merged = await at.visiting.post(f"{path}/merge", into="none")
        assert 'value="none"' in merged.text
        assert "\nThe gate.</textarea>" in merged.text
        long = await at.visiting.post(f"{path}/comments", body="y" * 20000)
        assert long.status_code == 400
        assert f"\n{'y' * 20000}</textarea>" in long.text


async def test_a_method_is_what_it_is(owner_desk: OpenOwnerDesk) -> None:
    """`post` is not POST: the page is there, and takes no such method."""
    async with owner_desk() as at:
        draft = await at.draft()
        form = {"draft_id": str(draft.id), "body_sha256": draft.body_sha256.hex()}
        path = f"{at.server.url}/drafts/{draft.id}/approve"
        head = dict(at.visiting.client.headers) | {
            "Content-Type": "application/x-www-form-urlencoded"
        }
        answer = await at.visiting.client.request("POST", path, data=form, headers=head)
        assert answer.status_code == 303
        assert (await raw(at.server.url, "post", "/sign-in", head)).startswith(b"HTTP/1.1 405")
        assert (await raw(at.server.url, "get", "/sign-in", head)).startswith(b"HTTP/1.1 405")
        assert (await raw(at.server.url, "GET", "/sign-in", head)).startswith(b"HTTP/1.1 303")


async def raw(url: str, method: str, path: str, head: dict[str, str]) -> bytes:
    """The first bytes of the answer to a request that no client of ours would write."""
    host, _, port = url.removeprefix("http://").partition(":")
    lines = [f"{method} {path} HTTP/1.1", f"Host: {head['host']}", f"Cookie: {head['cookie']}"]
    stream = await trio.open_tcp_stream(host, int(port))
    async with stream:
        await stream.send_all("\r\n".join((*lines, "Content-Length: 0", "", "")).encode())
        return await stream.receive_some(65536)


async def test_a_foreign_form_is_forbidden(db: SpiedDatabase, cluster: Cluster) -> None:
    """A form of another site is 403, and what it holds is not shown."""
    async with running_server(db, cluster.app_url) as server, page_client(server) as client:
        client.headers["Sec-Fetch-Site"] = "cross-site"
        answer = await client.post("/sign-in", data={"name": "planted", "password": "x"})
        assert answer.status_code == 403
        assert "planted" not in answer.text


def test_every_pattern_is_told_in_words() -> None:
    """An input with a pattern has a title, which browsers show with their own complaint."""
    templates = (Path(web.pages.__file__).parent / "templates").rglob("*.html")
    inputs = [tag for each in templates for tag in re.findall(r"<input\b[^>]*>", each.read_text())]
    patterned = [tag for tag in inputs if "pattern=" in tag]
    assert len(patterned) >= 6
    assert [tag for tag in patterned if "title=" not in tag] == []
