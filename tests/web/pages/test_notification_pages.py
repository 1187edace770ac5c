"""The section "Notifications" of the settings, the service worker, and what a visible tab says."""

import json
import re
from collections.abc import AsyncIterator

import attrs
import pytest

from muster.principals import Node, Owner
from muster.push import operations as push
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.push_desk import PushDesk, push_desk
from tests.support.push_service import Answer
from tests.support.server import Server, running_server
from tests.support.visitor import Visiting, page_client, sign_in

SECTION = "/settings#notifications"


@attrs.frozen(kw_only=True)
class Settings:
    """Somebody at their settings."""

    server: Server
    desk: PushDesk
    visiting: Visiting

    async def post(self, path: str, **fields: str) -> None:
        """Send a form of the section, which must go well."""
        answer = await self.visiting.post(f"/settings/notifications/{path}", **fields)
        assert (answer.status_code, answer.headers["location"]) == (303, SECTION), answer.text

    async def subscribe(self) -> int:
        """The browser becomes a device, by its form; its id."""
        subscription = attrs.asdict(self.desk.browser.subscription)
        await self.post("browser", **subscription)
        return (await self.desk.devices())[-1].id

    async def page(self) -> str:
        """The settings."""
        answer = await self.visiting.get("/settings")
        assert answer.status_code == 200
        return answer.text


@pytest.fixture
async def settings(db: SpiedDatabase, cluster: Cluster, owner: Owner) -> AsyncIterator[Settings]:
    """An owner at the settings of a running server."""
    async with (
        running_server(db, cluster.app_url) as server,
        push_desk(server.node.db, owner) as desk,
    ):
        visiting = await sign_in(server, owner)
        async with visiting.client:
            yield Settings(server=server, desk=desk, visiting=visiting)


async def test_a_browser_is_added_tested_and_removed(settings: Settings) -> None:
    """What the page gives a browser to subscribe with is what its pushes are signed with."""
    assert "No device is notified yet" in await settings.page()
    device_id = await settings.subscribe()
    shown = await settings.page()
    key = await settings.desk.db.run(Node(), push.push_key, None)
    assert re.search(r'data-push="([^"]+)"', shown)[1] == key.spelled  # type: ignore[index]
    assert f'data-endpoint="{settings.desk.browser.endpoint}"' in shown
    await settings.post(f"{device_id}/test")
    (note,) = await settings.desk.notes(1)
    assert note["path"] == SECTION
    await settings.desk.reaches("cleared")
    await settings.post(f"{device_id}/remove")
    assert await settings.desk.devices() == []


async def test_the_last_error_stands_at_the_device(settings: Settings) -> None:
    """A device that is not reached says so, with the reason and when."""
    device_id = await settings.subscribe()
    settings.desk.service.script.append(Answer(status=403, body=b"<b>their words</b>"))
    await settings.post(f"{device_id}/test")
    await settings.desk.reaches("failed")
    shown = await settings.page()
    assert "not reached" in shown
    assert "it answered 403" in shown
    assert "their words" not in shown


async def test_the_secret_of_a_webhook_is_shown_once(settings: Settings) -> None:
    """A webhook's secret is in the answer to its form, and in no page after it."""
    url = f"{settings.desk.service.url}/hook"
    answer = await settings.visiting.post("/settings/notifications/webhook", name="Bell", url=url)
    assert answer.status_code == 200
    secret = re.search(r'id="secret" class="token">([^<]+)<', answer.text)
    assert secret is not None
    shown = await settings.page()
    assert "Bell" in shown
    assert secret[1] not in shown


async def test_an_ntfy_token_is_never_shown(settings: Settings) -> None:
    """A topic's token is taken and not given back."""
    url = f"{settings.desk.service.url}/"
    await settings.post("ntfy", name="Phone", url=url, topic="mine", token="tk_hidden")
    shown = await settings.page()
    assert "Phone" in shown
    assert "tk_hidden" not in shown


async def test_kinds_and_quiet_hours_are_kept(settings: Settings) -> None:
    """What was chosen is what the forms show the next time."""
    device_id = await settings.subscribe()
    await settings.post(f"{device_id}/kinds", ask="1")
    await settings.post("quiet-hours", **{"from": "22:30", "until": "07:00"})
    (device,) = await settings.desk.devices()
    assert device.kinds == ["ask"]
    shown = await settings.page()
    assert re.findall(r'name="(draft|ask|task)" value="1" checked', shown) == ["ask"]
    assert 'value="22:30"' in shown
    assert 'value="07:00"' in shown
    await settings.post("quiet-hours", **{"from": "", "until": ""})
    assert 'value="22:30"' not in await settings.page()


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("webhook", {"name": "x", "url": "http://example.test/"}),
        ("webhook", {"name": "x", "url": "https://u:p@example.test/"}),
        ("webhook", {"name": "x", "url": "file:///etc/passwd"}),
        ("ntfy", {"name": "x", "url": "https://example.test/", "topic": "a b"}),
        ("browser", {"name": "x", "url": "https://example.test/", "p256dh": "AA", "auth": "AA"}),
        ("quiet-hours", {"from": "25:00", "until": "07:00"}),
    ],
)
async def test_what_muster_does_not_push_to_is_refused(
    settings: Settings, path: str, fields: dict[str, str]
) -> None:
    """A form that names no place to push to is 400, and nothing is kept of it."""
    answer = await settings.visiting.post(f"/settings/notifications/{path}", **fields)
    assert answer.status_code == 400
    assert await settings.desk.devices() == []


async def test_somebody_elses_device_is_not_found(settings: Settings, db: SpiedDatabase) -> None:
    """Another owner can neither test, nor change, nor remove a device."""
    device_id = await settings.subscribe()
    stranger = await sign_in(settings.server, await add_owner(db))
    async with stranger.client:
        for verb in ("test", "remove", "kinds"):
            answer = await stranger.post(f"/settings/notifications/{device_id}/{verb}")
            assert answer.status_code == 404
    assert [device.id for device in await settings.desk.devices()] == [device_id]


async def test_a_browser_moves_to_its_new_subscription(settings: Settings) -> None:
    """A push service that gives a browser a new address moves its device there."""
    await settings.subscribe()
    old = settings.desk.browser.endpoint
    fields = attrs.asdict(settings.desk.browser.subscription) | {"url": f"{old}-2"}
    fields = {"old_url": old} | {name: fields[name] for name in ("url", "p256dh", "auth")}
    answer = await settings.visiting.post("/settings/notifications/renew", **fields)
    assert answer.status_code == 204
    (device,) = await settings.desk.devices()
    assert device.url == f"{old}-2"
    again = await settings.visiting.post("/settings/notifications/renew", **fields)
    assert again.status_code == 404


async def test_what_a_visible_tab_shows_is_not_pushed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tab gets a moment to show what is new, and what it then says it shows is not pushed."""
    monkeypatch.setattr("muster.push.actor.GRACE_SECONDS", 2.0)
    await settings.subscribe()
    await settings.visiting.post("/live/visible", tab="t1", items="")
    shown, other = await settings.desk.draft(), await settings.desk.draft()
    items = f"draft:{shown.id} draft:x :: draft:99999999999999999999"
    answer = await settings.visiting.post("/live/visible", tab="t1", items=items)
    assert answer.status_code == 204
    await settings.desk.reaches("seen", "sent")
    (note,) = await settings.desk.notes(1)
    assert note["tag"] == f"draft-{other.id}"
    await settings.visiting.post("/live/visible", tab="t1")
    assert not settings.server.node.presence.watches(settings.desk.owner.owner_id)


async def test_other_sites_cannot_say_what_is_visible(settings: Settings) -> None:
    """A beacon of another site is refused, and one without a session is led to sign in."""
    fields = {"tab": "t1", "items": "draft:1"}
    foreign = {"Sec-Fetch-Site": "cross-site"}
    client = settings.visiting.client
    assert (await client.post("/live/visible", data=fields, headers=foreign)).status_code == 403
    async with page_client(settings.server) as guest:
        assert (await guest.post("/live/visible", data=fields)).status_code == 303
    assert not settings.server.node.presence.watches(settings.desk.owner.owner_id)


async def test_the_service_worker_stands_at_the_root(settings: Settings) -> None:
    """A browser takes the worker for every page, and asks each time whether it has changed."""
    async with settings.server.client() as client:
        worker = await client.get("/sw.js")
        assert worker.status_code == 200
        assert worker.headers["content-type"].startswith("text/javascript")
        assert worker.headers["service-worker-allowed"] == "/"
        assert worker.headers["cache-control"] == "no-cache"
        found = re.search(r'rel="manifest" href="([^"]+)"', await settings.page())
        assert found is not None
        manifest = await client.get(found[1])
        assert manifest.headers["content-type"] == "application/manifest+json"
        for icon in json.loads(manifest.text)["icons"]:
            assert (await client.get(icon["src"])).status_code == 200
