"""Where pushes go: an owner's browsers, ntfy topics and webhooks.

An address is the owner's own wish, so a server of theirs at home is as good as any. Refused is what
is not HTTP, what carries a password in itself, and whatever is not encrypted and leaves this
machine. A redirect is never followed (muster/push/dial.py), or an address that was allowed could
lead to one that is not.
"""

import base64
import binascii
import enum
import ipaddress
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import attrs

from muster.errors import Invalid
from muster.names import check_line
from muster.push.rules.words import CHOICES, Kind

DEVICES_MAX: Final = 20
URL_BYTES_MAX: Final = 1000
NAME_CHARACTERS_MAX: Final = 80
HOST_CHARACTERS_MAX: Final = 254
TOKEN_CHARACTERS_MAX: Final = 400
_TOPIC: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_AUTHORITY: Final = re.compile(
    r"(\[[0-9a-f:.]+\]|[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?)(:[0-9]*)?"
)
_PRINTED: Final = re.compile(r"[!-~]+")
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+={0,2}")


class Sink(enum.Enum):
    """What kind of thing takes the push."""

    BROWSER = "browser"
    NTFY = "ntfy"
    WEBHOOK = "webhook"


@attrs.frozen(kw_only=True)
class Device:
    """One place that an owner is told at, as far as sending needs it."""

    id: int
    sink: Sink = attrs.field(converter=Sink)
    url: str
    topic: str
    p256dh: bytes | None = attrs.field(repr=False)
    auth: bytes | None = attrs.field(repr=False)
    secret: str | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class DeviceView:
    """A device as its owner sees it; `host` is all that is shown of an address."""

    id: int
    sink: Sink = attrs.field(converter=Sink)
    name: str
    url: str = attrs.field(repr=False)
    topic: str
    kinds: list[str]
    created_at: datetime
    last_success_at: datetime | None
    last_error_at: datetime | None
    last_error: str | None
    testing: bool

    @property
    def host(self) -> str:
        """The machine that takes the pushes."""
        return urlsplit(self.url).netloc

    @property
    def failing(self) -> bool:
        """Whether the last push to it did not arrive."""
        if self.last_error_at is None:
            return False
        return self.last_success_at is None or self.last_success_at < self.last_error_at


@attrs.frozen(kw_only=True)
class AddBrowser:
    """A browser's subscription, as the browser gives it: keys in base64url."""

    name: str
    url: str
    p256dh: str
    auth: str


@attrs.frozen(kw_only=True)
class AddNtfy:
    """A topic of an ntfy server; `token` is the server's, where it asks for one."""

    name: str
    url: str
    topic: str
    token: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True)
class AddWebhook:
    """An address that takes signed JSON."""

    name: str
    url: str


@attrs.frozen(kw_only=True)
class NewDevice:
    """A device that was checked and is to be written."""

    sink: Sink
    name: str
    url: str
    topic: str = ""
    p256dh: bytes | None = attrs.field(default=None, repr=False)
    auth: bytes | None = attrs.field(default=None, repr=False)
    secret: str | None = attrs.field(default=None, repr=False)


def check_browser(command: AddBrowser) -> NewDevice:
    """Raise Invalid unless it is a subscription that can be pushed to."""
    url = check_url(command.url)
    if ":" in (urlsplit(url).hostname or ""):
        raise Invalid("A push service has a name, not an IPv6 address.", field="url")
    return NewDevice(
        sink=Sink.BROWSER,
        name=_name(command.name),
        url=url,
        p256dh=_key(command.p256dh, 65, "p256dh"),
        auth=_key(command.auth, 16, "auth"),
    )


def check_ntfy(command: AddNtfy) -> NewDevice:
    """Raise Invalid unless it is a topic that can be published to."""
    if _TOPIC.fullmatch(command.topic) is None:
        raise Invalid(
            "A topic is 1 to 64 letters, digits, hyphens and underscores.", field="topic"
        )
    token = command.token or None
    if token is not None and (
        len(token) > TOKEN_CHARACTERS_MAX or _PRINTED.fullmatch(token) is None
    ):
        raise Invalid("A token is up to 400 printed characters without spaces.", field="token")
    return NewDevice(
        sink=Sink.NTFY,
        name=_name(command.name),
        url=check_url(command.url).rstrip("/"),
        topic=command.topic,
        secret=token,
    )


def check_webhook(command: AddWebhook, secret: str) -> NewDevice:
    """Raise Invalid unless it can be posted to; `secret` is what its pushes are signed with."""
    url = check_url(command.url)
    return NewDevice(sink=Sink.WEBHOOK, name=_name(command.name), url=url, secret=secret)


def check_kinds(names: Iterable[str]) -> tuple[Kind, ...]:
    """Raise Invalid for a kind that nobody can choose; the chosen ones, each once."""
    wanted = set(names)
    if not wanted <= {kind.value for kind in CHOICES}:
        raise Invalid("A device is told of drafts, asks and tasks.", field="kinds")
    return tuple(kind for kind in CHOICES if kind.value in wanted)


def check_url(text: str) -> str:
    """Raise Invalid for an address that muster does not push to."""
    if not _PRINTED.fullmatch(text) or len(text) > URL_BYTES_MAX:
        raise Invalid("An address is at most 1,000 characters of ASCII.", field="url")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Invalid("That is no address.", field="url") from None
    if parts.scheme not in ("http", "https") or not host or "\\" in text:
        raise Invalid("An address begins with https:// and a host.", field="url")
    if "@" in parts.netloc:
        raise Invalid("An address may not hold a name or a password.", field="url")
    if not _is_host(host, parts.netloc):
        raise Invalid("There can be no such host.", field="url")
    if parts.fragment:
        raise Invalid("An address ends before its #.", field="url")
    if parts.scheme == "http" and not is_loopback(host):
        raise Invalid("Beyond this machine muster pushes over https:// alone.", field="url")
    return text


def _is_host(host: str, authority: str) -> bool:
    """Whether this can be a host: a name that a resolver may be asked for, or an address."""
    if len(host) > HOST_CHARACTERS_MAX or _AUTHORITY.fullmatch(authority.lower()) is None:
        return False
    if not authority.startswith("["):
        return True
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def takes_silence(device_url: str) -> bool:
    """Whether a push that shows nothing may be sent there.

    Apple's service withdraws the subscription of a site that pushes three of them.
    """
    return not (urlsplit(device_url).hostname or "").endswith(".push.apple.com")


def _name(text: str) -> str:
    name = text.strip()
    check_line(name, field="name", characters_max=NAME_CHARACTERS_MAX)
    return name


def _key(text: str, length: int, field: str) -> bytes:
    if _BASE64URL.fullmatch(text):
        try:
            key = base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
        except binascii.Error:
            key = b""
        if len(key) == length:
            return key
    raise Invalid("That is no subscription of a browser.", field=field)
