"""The names of the settings, `MUSTER_*`: what each is for, and how it is read (muster.config)."""

import attrs

FILE_SUFFIX = "_FILE"


@attrs.frozen(kw_only=True)
class Setting:
    """A name that muster knows: what it means, for `muster config show`.

    `secret` ones are never printed and may come from a file named by `<name>_FILE`; `client` ones
    are read by the programs on the other side of the wire and left alone by the server.
    """

    name: str
    default: str
    meaning: str
    secret: bool = False
    client: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="MUSTER_BIND",
        default="127.0.0.1:8420",
        meaning="the address and port that the server listens on",
    ),
    Setting(
        name="MUSTER_PUBLIC_URL",
        default="http://localhost:<port>",
        meaning="the address by which people and plugins reach the server",
    ),
    Setting(
        name="MUSTER_DATA_DIR",
        default="~/.local/share/muster",
        meaning="the folder that holds what muster keeps, the embedded database above all",
    ),
    Setting(
        name="MUSTER_DATABASE_URL",
        default="the embedded database",
        meaning="a PostgreSQL 15 or newer; an owner or a superuser, for migrations",
        secret=True,
    ),
    Setting(
        name="MUSTER_DATABASE_APP_URL",
        default="muster_app, with a generated password",
        meaning="the login of the running server, when it may not be made by muster",
        secret=True,
    ),
    Setting(name="MUSTER_PLUGINS", default="0", meaning="1 opens the doors for plugins"),
    Setting(name="MUSTER_LOG", default="info", meaning="debug, info, warning or error"),
    Setting(
        name="MUSTER_FLOW_AGENT_DENY_WORDS",
        default="none",
        meaning="words that no reply may contain, separated by commas",
    ),
    Setting(
        name="MUSTER_PLUGIN_TASK_NAMESPACES",
        default="none",
        meaning="namespaces of the tags by which plugins file tasks, separated by commas",
    ),
    Setting(
        name="MUSTER_TURN_DEADLINE",
        default="15m",
        meaning="how long the chief may take for one message",
    ),
    Setting(
        name="MUSTER_DRAIN",
        default="20s",
        meaning="how long a stopping server waits for turns that are running",
    ),
    Setting(
        name="MUSTER_STEPUP_WINDOW",
        default="12h",
        meaning="how long after a sign-in its browser may approve replies",
    ),
    Setting(
        name="MUSTER_HOOK_TOKEN",
        default="none",
        meaning="a secret of 32 characters or more that programs share for the hook routes",
        secret=True,
    ),
    Setting(
        name="MUSTER_HOOK_OWNER",
        default="none",
        meaning="the account that the hook token acts as",
    ),
    Setting(
        name="MUSTER_SEND_QUEUE_IDLE",
        default="30s",
        meaning="how long a mirrored session is idle before a queued text is pasted",
    ),
    Setting(
        name="MUSTER_SESSION_FOCUS",
        default="1",
        meaning="0 does not tell the chief which sessions may be on a message already",
    ),
    Setting(
        name="MUSTER_SESSION_ROUTING",
        default="0",
        meaning="1 lets the chief hand messages to mirrored sessions, while plugins are on",
    ),
    Setting(
        name="MUSTER_ROUTE_RELAY_ALLOW",
        default="none",
        meaning="whose messages sessions answer unasked: <user id>:<plugin>:<address>, …",
    ),
    Setting(
        name="MUSTER_PR_MAIL_SENDERS",
        default="none",
        meaning="review gates whose agent mail goes to a pull request's author: <owner>/<handle>",
    ),
    Setting(
        name="MUSTER_MAIL_RESUME_ALLOW",
        default="none",
        meaning="whose agent mail may have an ended session resumed: <user id>:<plugin>:<address>",
    ),
    Setting(
        name="MUSTER_MAIL_RESUME_OFF",
        default="0",
        meaning="1 resumes no ended session for agent mail, whatever is allowed",
    ),
    Setting(
        name="MUSTER_FLEET_REPORT_SENDERS",
        default="none",
        meaning="whose agent mail gets fleet reports, unasked: <owner>/<handle>, …",
    ),
    Setting(
        name="MUSTER_FLEET_REPORT_PATHS",
        default="none",
        meaning="the directories whose sessions a fleet report may tell of, separated by commas",
    ),
    Setting(
        name="MUSTER_CLI_DECISIONS",
        default="1",
        meaning="0 forbids deciding on drafts and asks by command line",
    ),
    Setting(
        name="MUSTER_URL",
        default="http://localhost:8420",
        meaning="the server, for plugins and agents",
        client=True,
    ),
    Setting(
        name="MUSTER_PLUGIN_TOKEN",
        default="none",
        meaning="the token of a plugin, for that plugin",
        secret=True,
        client=True,
    ),
    Setting(
        name="MUSTER_MAIL_IMAP_PASSWORD",
        default="none",
        meaning="the password of the account that muster mail reads",
        secret=True,
        client=True,
    ),
    Setting(
        name="MUSTER_MAIL_SMTP_PASSWORD",
        default="none",
        meaning="the password of the account that muster mail sends through",
        secret=True,
        client=True,
    ),
    Setting(
        name="MUSTER_API_TOKEN",
        default="none",
        meaning="your personal token, for muster route reply",
        secret=True,
        client=True,
    ),
    Setting(
        name="MUSTER_MIRROR_TOKEN",
        default="none",
        meaning="the token of a machine, for its muster mirror",
        secret=True,
        client=True,
    ),
    Setting(
        name="MUSTER_AGENT_TOKEN",
        default="none",
        meaning="the token of an agent, for its runner",
        secret=True,
        client=True,
    ),
)
SETTINGS_BY_NAME = {setting.name: setting for setting in SETTINGS}
KNOWN_NAMES = frozenset(SETTINGS_BY_NAME) | {
    setting.name + FILE_SUFFIX for setting in SETTINGS if setting.secret
}
