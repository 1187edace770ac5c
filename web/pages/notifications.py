"""The section "Notifications" of `/settings`, and what a visible tab says of itself.

Where an owner is told gives nobody a way in, so it needs no fresh sign-in; a secret is shown once.
"""

from collections.abc import Mapping
from typing import Final

from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from muster.principals import Node
from muster.push import operations as push
from muster.push.rules.devices import AddBrowser, AddNtfy, AddWebhook
from muster.push.rules.hours import read_hours, spell_minute
from muster.push.rules.words import read_items
from web.pages.reading import read_id
from web.pages.visits import Visit, go_to, show, signed_in

NOTIFICATIONS: Final = Blueprint("notifications", __name__)
CHOICES: Final = (("draft", "reply drafts"), ("ask", "questions"), ("task", "new tasks"))
_BROWSERS: Final = ("Firefox", "Edg", "OPR", "Chrome", "Safari")
_NAMES: Final = {"Edg": "Edge", "OPR": "Opera"}
_SYSTEMS: Final = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
_SECTION: Final = "/settings#notifications"


async def load_notifications(visit: Visit) -> Mapping[str, object]:
    """The devices, the quiet hours, and what this browser needs to become a device."""
    notified = await visit.node.db.run(visit.owner, push.get_notified, None)
    key = await visit.node.db.run(Node(), push.push_key, None)
    hours = notified.hours
    return {
        "notified": notified,
        "key": key.spelled,
        "choices": CHOICES,
        "browser": name_browser(visit.user_agent),
        "quiet_from": "" if hours is None else spell_minute(hours.from_minute),
        "quiet_until": "" if hours is None else spell_minute(hours.until_minute),
    }


def name_browser(user_agent: str) -> str:
    """A name for a browser, to begin with."""
    browser = next((one for one in _BROWSERS if one in user_agent), "Browser")
    system = next((one for one in _SYSTEMS if one in user_agent), "")
    named = _NAMES.get(browser, browser)
    return f"{named} on {system}" if system else named


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/browser", page="/settings")
async def add_browser(visit: Visit) -> ResponseReturnValue:
    """Push to the browser that subscribed."""
    form = visit.form
    command = AddBrowser(
        name=form.get("name", ""),
        url=form.get("url", ""),
        p256dh=form.get("p256dh", ""),
        auth=form.get("auth", ""),
    )
    await visit.node.db.run(visit.owner, push.add_browser, command)
    return go_to(_SECTION)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/renew")
async def renew_browser(visit: Visit) -> ResponseReturnValue:
    """A browser's push service gave it a new subscription; its service worker says so."""
    form = visit.form
    command = push.Renew(
        old_url=form.get("old_url", ""),
        url=form.get("url", ""),
        p256dh=form.get("p256dh", ""),
        auth=form.get("auth", ""),
    )
    await visit.node.db.run(visit.owner, push.renew, command)
    return Response("", status=204)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/ntfy", page="/settings")
async def add_ntfy(visit: Visit) -> ResponseReturnValue:
    """Push to a topic of an ntfy server."""
    form = visit.form
    command = AddNtfy(
        name=form.get("name", ""),
        url=form.get("url", ""),
        topic=form.get("topic", ""),
        token=form.get("token", ""),
    )
    await visit.node.db.run(visit.owner, push.add_ntfy, command)
    return go_to(_SECTION)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/webhook", page="/settings")
async def add_webhook(visit: Visit) -> ResponseReturnValue:
    """Push to a webhook; its secret is shown by this answer and never again."""
    command = AddWebhook(name=visit.form.get("name", ""), url=visit.form.get("url", ""))
    secret = await visit.node.db.run(visit.owner, push.add_webhook, command)
    return await show("webhook_made.html", secret=secret)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/quiet-hours", page="/settings")
async def set_quiet_hours(visit: Visit) -> ResponseReturnValue:
    """Set the hours in which nothing is pushed, or that there are none."""
    hours = read_hours(visit.form.get("from", ""), visit.form.get("until", ""))
    await visit.node.db.run(visit.owner, push.set_quiet_hours, hours)
    return go_to(_SECTION)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/<device_id>/kinds", page="/settings")
async def set_kinds(visit: Visit, device_id: str) -> ResponseReturnValue:
    """Choose what a device is told of."""
    chosen = frozenset(name for name, _ in CHOICES if visit.form.get(name) == "1")
    command = push.SetKinds(device_id=read_id(device_id), kinds=chosen)
    await visit.node.db.run(visit.owner, push.set_kinds, command)
    return go_to(_SECTION)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/<device_id>/test", page="/settings")
async def test_device(visit: Visit, device_id: str) -> ResponseReturnValue:
    """Push a test; what comes of it stands at the device a moment later."""
    await visit.node.db.run(visit.owner, push.test_device, read_id(device_id))
    return go_to(_SECTION)


@signed_in(NOTIFICATIONS, "POST", "/settings/notifications/<device_id>/remove", page="/settings")
async def remove_device(visit: Visit, device_id: str) -> ResponseReturnValue:
    """Push to a device no more."""
    await visit.node.db.run(visit.owner, push.remove_device, read_id(device_id))
    return go_to(_SECTION)


@signed_in(NOTIFICATIONS, "POST", "/live/visible")
async def note_visible(visit: Visit) -> ResponseReturnValue:
    """A tab is visible and shows these items; without `items` it is visible no more."""
    tab, items = visit.form.get("tab", "")[:64], visit.form.get("items")
    if items is None:
        visit.node.presence.hide(visit.owner.owner_id, tab)
    else:
        visit.node.presence.show(visit.owner.owner_id, tab, read_items(items))
    return Response("", status=204)
