"""The settings of a muster, read once from `MUSTER_*` environment variables.

Every fault is listed at once, so that a person mends a configuration in one go. A name that
muster does not know is a fault too: a misspelt setting that silently keeps its default is worse
than a start that fails. A value of no characters counts as not set, as container files need it.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import attrs
import unicodedata2

from muster.allowlists import Allowlist, is_agent_mail
from muster.errors import Invalid, MusterError
from muster.ids import kind_of
from muster.names import check_name, check_namespace, normal_path
from muster.settings import FILE_SUFFIX, KNOWN_NAMES, SETTINGS_BY_NAME

PREFIX = "MUSTER_"
SECRET_FILE_BYTES_MAX = 64 * 1024
TURN_DEADLINE_SECONDS_MAX = 24 * 60 * 60
DRAIN_SECONDS_MAX = 60 * 60
STEPUP_WINDOW_SECONDS_MAX = 30 * 24 * 60 * 60
SEND_QUEUE_IDLE_SECONDS_MAX = 60 * 60
HOOK_TOKEN_CHARACTERS_MIN = 32
DENY_WORDS_MAX = 1000
TASK_NAMESPACES_MAX = 100
SENDERS_MAX = 1000
PATHS_MAX = 100

LOG_LEVELS = ("debug", "info", "warning", "error")
_DURATION = re.compile(r"([0-9]+)([smhd])")
_DURATION_DIGITS_MAX = 9
_SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_KEYWORDS = re.compile(r"[a-z_]+ *=")
_BIND = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>[0-9]{1,5})")

Value = TypeVar("Value")


class ConfigError(MusterError):
    """The configuration has faults, and `faults` lists all of them, one sentence each."""

    default_code = "bad_configuration"

    def __init__(self, faults: tuple[str, ...]) -> None:
        assert faults
        super().__init__(" ".join(faults), facts={"faults": list(faults)})
        self.faults = faults


@attrs.frozen(kw_only=True)
class Config:
    """A whole and valid configuration. Durations are whole seconds; paths are absolute."""

    bind_host: str
    bind_port: int
    public_url: str
    data_dir: Path
    database_url: str | None = attrs.field(repr=False)
    database_app_url: str | None = attrs.field(repr=False)
    plugins: bool
    log_level: str
    deny_words: frozenset[str]
    task_namespaces: frozenset[str]
    turn_deadline_seconds: int
    drain_seconds: int
    stepup_window_seconds: int
    hook_token: str | None = attrs.field(repr=False)
    hook_owner: str | None
    send_queue_idle_seconds: int
    session_focus: bool
    session_routing: bool  # on only while plugins are: see `routing`
    pr_mail_senders: frozenset[str]  # see `routes_reviews`
    route_relay_allow: Allowlist
    mail_resume_allow: Allowlist
    mail_resume_off: bool
    fleet_report_senders: frozenset[str]  # see `answers_fleet_requests`
    fleet_report_paths: tuple[str, ...]
    cli_decisions: bool

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Config":
        """Read the settings, or raise ConfigError with every fault.

        Looks at `MUSTER_*`, `HOME` and `XDG_DATA_HOME`, and at the files that `MUSTER_*_FILE` name.
        """
        reader = _Reader(environ)
        reader.refuse_unknown_names()
        host, port = reader.take("MUSTER_BIND", _bind, ("127.0.0.1", 8420))
        config = cls(
            bind_host=host,
            bind_port=port,
            public_url=reader.take("MUSTER_PUBLIC_URL", _public_url, _default_public_url(port)),
            data_dir=reader.take("MUSTER_DATA_DIR", reader.folder, None) or reader.data_dir(),
            database_url=reader.take("MUSTER_DATABASE_URL", _database_url, None),
            database_app_url=reader.take("MUSTER_DATABASE_APP_URL", _database_url, None),
            plugins=reader.take("MUSTER_PLUGINS", _switch, default=False),
            log_level=reader.take("MUSTER_LOG", _log_level, "info"),
            deny_words=reader.take("MUSTER_FLOW_AGENT_DENY_WORDS", _words, frozenset[str]()),
            task_namespaces=reader.take(
                "MUSTER_PLUGIN_TASK_NAMESPACES", _namespaces, frozenset[str]()
            ),
            turn_deadline_seconds=reader.seconds(
                "MUSTER_TURN_DEADLINE", 15 * 60, least=1, most=TURN_DEADLINE_SECONDS_MAX
            ),
            drain_seconds=reader.seconds("MUSTER_DRAIN", 20, least=0, most=DRAIN_SECONDS_MAX),
            stepup_window_seconds=reader.seconds(
                "MUSTER_STEPUP_WINDOW", 12 * 60 * 60, least=60, most=STEPUP_WINDOW_SECONDS_MAX
            ),
            hook_token=reader.take("MUSTER_HOOK_TOKEN", _hook_token, None),
            hook_owner=reader.take("MUSTER_HOOK_OWNER", _account, None),
            send_queue_idle_seconds=reader.seconds(
                "MUSTER_SEND_QUEUE_IDLE", 30, least=1, most=SEND_QUEUE_IDLE_SECONDS_MAX
            ),
            session_focus=reader.take("MUSTER_SESSION_FOCUS", _switch, default=True),
            session_routing=reader.take("MUSTER_SESSION_ROUTING", _switch, default=False),
            pr_mail_senders=reader.take("MUSTER_PR_MAIL_SENDERS", _agent_mail, frozenset[str]()),
            route_relay_allow=reader.take("MUSTER_ROUTE_RELAY_ALLOW", Allowlist.parse, Allowlist()),
            mail_resume_allow=reader.take("MUSTER_MAIL_RESUME_ALLOW", Allowlist.parse, Allowlist()),
            mail_resume_off=reader.take("MUSTER_MAIL_RESUME_OFF", _switch, default=False),
            fleet_report_senders=reader.take(
                "MUSTER_FLEET_REPORT_SENDERS", _agent_mail, frozenset[str]()
            ),
            fleet_report_paths=reader.take("MUSTER_FLEET_REPORT_PATHS", _paths, ()),
            cli_decisions=reader.take("MUSTER_CLI_DECISIONS", _switch, default=True),
        )
        reader.need_both("MUSTER_HOOK_TOKEN", "MUSTER_HOOK_OWNER")
        reader.need("MUSTER_FLEET_REPORT_SENDERS", "MUSTER_FLEET_REPORT_PATHS")
        if config.database_app_url and not config.database_url:
            reader.faults.append("MUSTER_DATABASE_APP_URL needs MUSTER_DATABASE_URL beside it.")
        if reader.faults:
            raise ConfigError(tuple(reader.faults))
        return config

    @property
    def routing(self) -> bool:
        """Whether messages may be routed (plugins: "Routing a message to a session")."""
        return self.session_routing and self.plugins

    @property
    def routes_reviews(self) -> bool:
        """Whether reviews go to a pull request's author (plugins: "A pull-request review mail")."""
        return self.routing and bool(self.pr_mail_senders)

    @property
    def answers_fleet_requests(self) -> bool:
        """Whether fleet reports leave this muster (plugins: "A fleet-report request")."""
        return self.plugins and bool(self.fleet_report_senders)

    def listening_on(self, port: int) -> "Config":
        """The same, once a server bound to port 0 knows its port; a given public URL stays."""
        if self.public_url != _default_public_url(self.bind_port):
            return attrs.evolve(self, bind_port=port)
        return attrs.evolve(self, bind_port=port, public_url=_default_public_url(port))


def refuse_unknown_names(environ: Mapping[str, str]) -> None:
    """ConfigError when a `MUSTER_*` name is none of muster's, for programs that read only a few."""
    reader = _Reader(environ)
    reader.refuse_unknown_names()
    if reader.faults:
        raise ConfigError(tuple(reader.faults))


def duration_seconds(text: str, *, least: int, most: int) -> int:
    """Read `30s`, `15m`, `12h` or `14d`; ValueError says what is wrong.

    A bare number is refused: nobody can tell its unit a year later.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("is no duration: write 30s, 15m, 12h or 14d, with the unit")
    digits = match[1].lstrip("0") or "0"
    # So many digits are too many in any unit, and int() takes its time over thousands.
    is_long = len(digits) > _DURATION_DIGITS_MAX
    seconds = most + 1 if is_long else int(digits) * _SECONDS_PER_UNIT[match[2]]
    if seconds > most:
        raise ValueError(f"is too long: at most {duration(most)}")
    if seconds < least:
        raise ValueError(f"is too short: at least {duration(least)}")
    return seconds


def duration(seconds: int) -> str:
    """Spell a duration in the largest unit that it is a whole number of."""
    for unit, size in reversed(_SECONDS_PER_UNIT.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


class _Reader:
    """Takes one setting after the other and keeps the faults."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.faults: list[str] = []

    def refuse_unknown_names(self) -> None:
        for name in sorted(self._environ):
            if not name.startswith(PREFIX) or name in KNOWN_NAMES:
                continue
            near = difflib.get_close_matches(name, sorted(KNOWN_NAMES), n=1, cutoff=0)
            self.faults.append(f"{name} is no setting of muster; the nearest is {near[0]}.")

    def take(self, name: str, parse: Callable[[str], Value], default: Value) -> Value:
        """The parsed setting; the default when it is not set or, with a fault, wrong."""
        text = self._text(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(f"{name} {error}.")
            return default

    def seconds(self, name: str, default: int, *, least: int, most: int) -> int:
        """The same for a duration."""
        return self.take(name, lambda text: duration_seconds(text, least=least, most=most), default)

    def need_both(self, one: str, other: str) -> None:
        """Each of two settings that mean nothing without the other needs it."""
        self.need(one, other)
        self.need(other, one)

    def need(self, one: str, other: str) -> None:
        """The first of two settings means nothing without the second."""
        if self._is_set(one) and not self._is_set(other):
            self.faults.append(f"{one} needs {other} beside it.")

    def _is_set(self, name: str) -> bool:
        return bool(self._environ.get(name) or self._environ.get(name + FILE_SUFFIX))

    def _text(self, name: str) -> str:
        direct = self._environ.get(name, "")
        file = self._environ.get(name + FILE_SUFFIX, "") if SETTINGS_BY_NAME[name].secret else ""
        if direct and file:
            self.faults.append(f"{name} and {name}{FILE_SUFFIX} are both set; keep one.")
        if direct or not file:
            return direct
        try:
            text = Path(file).read_bytes()[: SECRET_FILE_BYTES_MAX + 1].decode().strip()
        except (OSError, UnicodeDecodeError):
            self.faults.append(f"{name}{FILE_SUFFIX} names a file that cannot be read as text.")
            return ""
        if not text or len(text) > SECRET_FILE_BYTES_MAX:
            self.faults.append(f"{name}{FILE_SUFFIX} names a file that is empty or over 64 KiB.")
            return ""
        return text

    def folder(self, text: str) -> Path:
        if "\0" in text:
            raise ValueError("is no path")
        if text == "~" or text.startswith("~/"):
            return self._home() / text[2:]
        return Path(text).absolute()

    def data_dir(self) -> Path:
        data_home = self._environ.get("XDG_DATA_HOME", "")
        # The XDG specification has relative values ignored.
        if Path(data_home).is_absolute():
            return Path(data_home) / "muster"
        return self._home() / ".local" / "share" / "muster"

    def _home(self) -> Path:
        home = self._environ.get("HOME")
        return Path(home) if home else Path.home()


def _default_public_url(port: int) -> str:
    # A passkey cannot belong to an IP address, so the name stands here whatever the server binds.
    return f"http://localhost:{port}"


def _bind(text: str) -> tuple[str, int]:
    match = _BIND.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be an address and a port, such as 127.0.0.1:8420 or [::1]:8420")
    return match["six"] or match["host"], int(match["port"])


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    rest = parts.path.strip("/") + parts.query + parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or rest or "@" in parts.netloc:
        raise ValueError("must be http:// or https:// with a host and nothing behind it")
    assert parts.port is None or parts.port >= 0, "reading the port refuses what is none"
    return f"{parts.scheme}://{parts.netloc}"


def _database_url(text: str) -> str:
    # The value holds a password: it appears in no fault. PostgreSQL's other spelling of an address
    # (host=… dbname=…) is taken too.
    if _KEYWORDS.match(text):
        return text
    try:
        parts = urlsplit(text)
        well_formed = parts.port is None or parts.port > 0
    except ValueError:
        well_formed = False
    if not well_formed or parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("must be a URL that begins with postgresql://")
    return text


def _hook_token(text: str) -> str:
    # The value is a secret: it appears in no fault.
    if kind_of(text) is not None:
        raise ValueError("begins like a token that muster makes; make one of your own")
    if len(text) < HOOK_TOKEN_CHARACTERS_MIN:
        raise ValueError(f"must have {HOOK_TOKEN_CHARACTERS_MIN} characters or more")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be printable ASCII without spaces, as it stands in a header")
    return text


def _account(text: str) -> str:
    try:
        check_name(text, field="name")
    except Invalid as error:
        raise ValueError("must be the name of an account") from error
    return text


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("must be 1 or 0")
    return text == "1"


def _agent_mail(text: str) -> frozenset[str]:
    """Exact addresses of agent mail, `<owner>/<handle>`; never folded."""
    listed = frozenset(part.strip() for part in text.split(",") if part.strip())
    for part in sorted(listed):
        if not is_agent_mail(part):
            raise ValueError(f"lists {part!r}, which is no <owner>/<handle>")
    if len(listed) > SENDERS_MAX:
        raise ValueError(f"may list at most {SENDERS_MAX} addresses")
    return listed


def _paths(text: str) -> tuple[str, ...]:
    """Directories, each as it is compared: absolute, normalised, and not the root of all."""
    listed = [part.strip() for part in text.split(",") if part.strip()]
    for part in listed:
        if part == "/" or not part.isprintable() or normal_path(part) != part:
            raise ValueError(f"lists {part!r}, which is no absolute, normalised path below /")
    if not 1 <= len(listed) <= PATHS_MAX:
        raise ValueError(f"must list 1 to {PATHS_MAX} paths")
    return tuple(dict.fromkeys(listed))


def _log_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        raise ValueError(f"must be one of {', '.join(LOG_LEVELS)}")
    return text.lower()


def _words(text: str) -> frozenset[str]:
    # Replies are folded to NFKC before they are screened, so the words are too.
    folded = unicodedata2.normalize("NFKC", text).casefold()
    words = frozenset(word.strip() for word in folded.split(",") if word.strip())
    if len(words) > DENY_WORDS_MAX:
        raise ValueError(f"may list at most {DENY_WORDS_MAX} words")
    return words


def _namespaces(text: str) -> frozenset[str]:
    listed = [part.strip() for part in text.split(",") if part.strip()]
    if len(listed) > TASK_NAMESPACES_MAX:
        raise ValueError(f"may list at most {TASK_NAMESPACES_MAX} namespaces")
    return frozenset(check_namespace(part) for part in listed)
