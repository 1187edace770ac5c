"""Settings: what is read, what is refused, and that every fault is told at once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.config import Config, ConfigError, duration, duration_seconds
from muster.settings import SETTINGS


def faults_of(environ: dict[str, str]) -> tuple[str, ...]:
    """What is wrong with these settings."""
    with pytest.raises(ConfigError) as caught:
        Config.from_environ({"HOME": "/home/ada"} | environ)
    return caught.value.faults


def test_defaults() -> None:
    """Without a setting, muster binds to this machine and keeps its things in the home folder."""
    config = Config.from_environ({"HOME": "/home/ada", "PATH": "/bin"})
    assert (config.bind_host, config.bind_port) == ("127.0.0.1", 8420)
    assert config.public_url == "http://localhost:8420"
    assert config.data_dir == Path("/home/ada/.local/share/muster")
    assert config.database_url is None
    assert config.database_app_url is None
    assert not config.plugins
    assert config.log_level == "info"
    assert config.deny_words == frozenset()
    assert config.task_namespaces == frozenset()
    assert config.turn_deadline_seconds == 900
    assert config.drain_seconds == 20
    assert config.stepup_window_seconds == 12 * 60 * 60
    assert (config.hook_token, config.hook_owner) == (None, None)
    assert config.cli_decisions


def test_every_setting_is_read(tmp_path: Path) -> None:
    """Each setting reaches its field."""
    config = Config.from_environ(
        {
            "MUSTER_BIND": "[::1]:9000",
            "MUSTER_PUBLIC_URL": "https://muster.example.test/",
            "MUSTER_DATA_DIR": str(tmp_path),
            "MUSTER_DATABASE_URL": "postgresql://boss:pw@db.example.test/muster",
            "MUSTER_DATABASE_APP_URL": "postgres://app:pw@db.example.test:5433/muster",
            "MUSTER_PLUGINS": "1",
            "MUSTER_LOG": "DEBUG",
            "MUSTER_FLOW_AGENT_DENY_WORDS": " Orion, straße,,\uff21bc ",
            "MUSTER_PLUGIN_TASK_NAMESPACES": " tracker, click.up-2,,tracker",
            "MUSTER_TURN_DEADLINE": "2h",
            "MUSTER_DRAIN": "0s",
            "MUSTER_STEPUP_WINDOW": "15m",
            "MUSTER_HOOK_TOKEN": "h" * 32,
            "MUSTER_HOOK_OWNER": "ada",
            "MUSTER_CLI_DECISIONS": "0",
            "MUSTER_URL": "anything",
            "MUSTER_PLUGIN_TOKEN": "mpl_x",
            "MUSTER_AGENT_TOKEN_FILE": "/nowhere",
        }
    )
    assert (config.bind_host, config.bind_port) == ("::1", 9000)
    assert config.public_url == "https://muster.example.test"
    assert config.data_dir == tmp_path
    assert config.database_url == "postgresql://boss:pw@db.example.test/muster"
    assert config.database_app_url == "postgres://app:pw@db.example.test:5433/muster"
    assert config.plugins
    assert config.log_level == "debug"
    assert config.deny_words == {"orion", "strasse", "abc"}
    assert config.task_namespaces == {"tracker", "click.up-2"}
    assert config.turn_deadline_seconds == 7200
    assert config.drain_seconds == 0
    assert config.stepup_window_seconds == 15 * 60
    assert (config.hook_token, config.hook_owner) == ("h" * 32, "ada")
    assert "h" * 32 not in repr(config)
    assert not config.cli_decisions


def test_all_faults_are_listed_at_once() -> None:
    """A configuration with four faults is mended in one go."""
    faults = faults_of(
        {
            "MUSTER_BIND": "8420",
            "MUSTER_PLUGINS": "yes",
            "MUSTER_DRAIN": "20",
            "MUSTER_PLUGIN": "1",
        }
    )
    assert len(faults) == 4
    assert any("the nearest is MUSTER_PLUGINS." in fault for fault in faults)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_BIND", "127.0.0.1"),
        ("MUSTER_BIND", "127.0.0.1:65536"),
        ("MUSTER_BIND", "::1:8420"),
        ("MUSTER_BIND", "a b:1"),
        ("MUSTER_BIND", "8420"),
        ("MUSTER_BIND", "host:"),
        ("MUSTER_PUBLIC_URL", "muster.example.test"),
        ("MUSTER_PUBLIC_URL", "ftp://muster.example.test"),
        ("MUSTER_PUBLIC_URL", "https://muster.example.test/path"),
        ("MUSTER_PUBLIC_URL", "https://ada@muster.example.test"),
        ("MUSTER_PUBLIC_URL", "https://muster.example.test:99999"),
        ("MUSTER_DATABASE_URL", "mysql://db.example.test/x"),
        ("MUSTER_DATABASE_URL", "postgresql://db.example.test:port/x"),
        ("MUSTER_PLUGINS", "true"),
        ("MUSTER_LOG", "loud"),
        ("MUSTER_TURN_DEADLINE", "900"),
        ("MUSTER_TURN_DEADLINE", "0s"),
        ("MUSTER_TURN_DEADLINE", "2d"),
        ("MUSTER_DRAIN", "61m"),
        ("MUSTER_DRAIN", "1.5s"),
        ("MUSTER_CLI_DECISIONS", "off"),
        ("MUSTER_FLOW_AGENT_DENY_WORDS", ",".join(f"w{n}" for n in range(1001))),
    ],
)
def test_a_wrong_value_names_its_setting(name: str, value: str) -> None:
    """A value that breaks a rule is one fault that begins with the setting's name."""
    faults = faults_of({name: value})
    assert len(faults) == 1
    assert faults[0].startswith(name)


def test_no_fault_shows_a_secret() -> None:
    """A wrong database URL is refused without showing its password."""
    faults = faults_of({"MUSTER_DATABASE_URL": "mysql://boss:hunter2@db.example.test/x"})
    assert "hunter2" not in " ".join(faults)
    config = Config.from_environ({"MUSTER_DATABASE_URL": "postgres://boss:hunter2@db/x"})
    assert "hunter2" not in repr(config)


def test_a_database_may_be_named_by_keywords() -> None:
    """PostgreSQL's other spelling of an address is taken as it is."""
    text = "host=/run/postgresql dbname=muster"
    assert Config.from_environ({"MUSTER_DATABASE_URL": text}).database_url == text


@pytest.mark.parametrize(
    ("environ", "fault"),
    [
        ({"MUSTER_HOOK_TOKEN": "x" * 32}, "MUSTER_HOOK_TOKEN needs MUSTER_HOOK_OWNER beside it."),
        ({"MUSTER_HOOK_OWNER": "ada"}, "MUSTER_HOOK_OWNER needs MUSTER_HOOK_TOKEN beside it."),
        (
            {"MUSTER_HOOK_TOKEN": "x" * 31, "MUSTER_HOOK_OWNER": "ada"},
            "MUSTER_HOOK_TOKEN must have 32 characters or more.",
        ),
        (
            {"MUSTER_HOOK_TOKEN": "mst_" + "x" * 40, "MUSTER_HOOK_OWNER": "ada"},
            "MUSTER_HOOK_TOKEN begins like a token that muster makes; make one of your own.",
        ),
        (
            {"MUSTER_HOOK_TOKEN": "x" * 31 + " y", "MUSTER_HOOK_OWNER": "ada"},
            "MUSTER_HOOK_TOKEN must be printable ASCII without spaces, as it stands in a header.",
        ),
        (
            {"MUSTER_HOOK_TOKEN": "x" * 32, "MUSTER_HOOK_OWNER": "Ada Lovelace"},
            "MUSTER_HOOK_OWNER must be the name of an account.",
        ),
    ],
)
def test_the_hook_token_has_an_owner_and_cannot_be_guessed(
    environ: dict[str, str], fault: str
) -> None:
    """The shared hook token and its owner stand together; it is long, and looks like no other."""
    assert faults_of(environ) == (fault,)


def test_the_hook_token_comes_from_a_file(tmp_path: Path) -> None:
    """The file that holds the hook token counts as the token."""
    file = tmp_path / "hook"
    file.write_text("f" * 40 + "\n")
    environ = {"MUSTER_HOOK_TOKEN_FILE": str(file), "MUSTER_HOOK_OWNER": "ada"}
    assert Config.from_environ(environ).hook_token == "f" * 40


def test_the_app_url_needs_the_other() -> None:
    """An application login without the database that muster migrates is a fault."""
    faults = faults_of({"MUSTER_DATABASE_APP_URL": "postgres://app@db/x"})
    assert "needs MUSTER_DATABASE_URL" in faults[0]


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    """A secret may stand in a file; the end of its line is not part of it."""
    file = tmp_path / "url"
    file.write_text("postgresql://boss:pw@db.example.test/muster\n")
    config = Config.from_environ({"MUSTER_DATABASE_URL_FILE": str(file)})
    assert config.database_url == "postgresql://boss:pw@db.example.test/muster"


def test_a_secret_stands_in_one_place(tmp_path: Path) -> None:
    """A secret that is given both ways is a fault, as is a file that is no text or not there."""
    file = tmp_path / "url"
    file.write_text("postgresql://db/x")
    both = {"MUSTER_DATABASE_URL": "postgresql://db/x", "MUSTER_DATABASE_URL_FILE": str(file)}
    assert "both set" in faults_of(both)[0]
    assert "cannot be read" in faults_of({"MUSTER_DATABASE_URL_FILE": str(tmp_path / "no")})[0]
    file.write_bytes(b"\xff\xfe")
    assert "cannot be read" in faults_of({"MUSTER_DATABASE_URL_FILE": str(file)})[0]
    file.write_text(" \n")
    assert "empty" in faults_of({"MUSTER_DATABASE_URL_FILE": str(file)})[0]


@pytest.mark.parametrize("bind", ["127.0.0.1:8420", "localhost:0", "[::1]:65535", "[::]:80"])
def test_addresses_that_can_be_bound(bind: str) -> None:
    """A host or a bracketed IPv6 address with a port is understood."""
    config = Config.from_environ({"MUSTER_BIND": bind})
    address = f"{config.bind_host}:{config.bind_port}"
    assert bind in {address, f"[{config.bind_host}]:{config.bind_port}"}


def test_only_secrets_have_files() -> None:
    """A file is no way to give a setting that is no secret."""
    assert "MUSTER_BIND_FILE is no setting" in faults_of({"MUSTER_BIND_FILE": "/etc/x"})[0]


def test_a_blank_value_is_not_set() -> None:
    """A value without characters leaves the default, as files of settings need it."""
    assert Config.from_environ({setting.name: "" for setting in SETTINGS}) == Config.from_environ(
        {}
    )


def test_where_the_data_lies() -> None:
    """XDG_DATA_HOME moves the data, a relative one is ignored, `~` is the home folder."""
    home = {"HOME": "/home/ada"}
    there = Config.from_environ(home | {"XDG_DATA_HOME": "/srv/data"})
    assert there.data_dir == Path("/srv/data/muster")
    relative = Config.from_environ(home | {"XDG_DATA_HOME": "data"})
    assert relative.data_dir == Path("/home/ada/.local/share/muster")
    tilde = Config.from_environ(home | {"MUSTER_DATA_DIR": "~/m"})
    assert tilde.data_dir == Path("/home/ada/m")
    assert Config.from_environ({"MUSTER_DATA_DIR": "m"}).data_dir.is_absolute()


def test_a_port_found_by_the_system_reaches_the_public_url() -> None:
    """A server bound to port 0 shows the port it got, unless a public URL was given."""
    config = Config.from_environ({"MUSTER_BIND": "127.0.0.1:0"}).listening_on(4711)
    assert (config.bind_port, config.public_url) == (4711, "http://localhost:4711")
    given_url = Config.from_environ(
        {"MUSTER_BIND": "127.0.0.1:0", "MUSTER_PUBLIC_URL": "https://m.example.test"}
    ).listening_on(4711)
    assert given_url.public_url == "https://m.example.test"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("MUSTER_TURN_DEADLINE", "25h", "is too long: at most 1d."),
        ("MUSTER_TURN_DEADLINE", "9999999999d", "is too long: at most 1d."),
        ("MUSTER_TURN_DEADLINE", f"{'9' * 5000}s", "is too long: at most 1d."),
        ("MUSTER_TURN_DEADLINE", "0m", "is too short: at least 1s."),
        ("MUSTER_DRAIN", "90m", "is too long: at most 1h."),
    ],
)
def test_a_duration_beyond_its_limits_says_so(name: str, value: str, told: str) -> None:
    """A duration that is too long or too short is told with its limit, and not as misspelt."""
    assert faults_of({name: value}) == (f"{name} {told}",)


@given(st.integers(0, 10_000), st.sampled_from("smhd"))
def test_durations_have_a_unit(amount: int, unit: str) -> None:
    """A duration is its amount times its unit; without the unit it is refused."""
    seconds = amount * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
    assert duration_seconds(f"{amount}{unit}", least=0, most=10**9) == seconds
    assert duration_seconds(f"000000000{amount}{unit}", least=0, most=10**9) == seconds
    assert duration_seconds(duration(seconds), least=0, most=10**9) == seconds
    with pytest.raises(ValueError, match="unit"):
        duration_seconds(str(amount), least=0, most=10**9)


@given(st.dictionaries(st.sampled_from([s.name for s in SETTINGS]), st.text(max_size=40)))
def test_any_text_is_a_value_or_a_fault(environ: dict[str, str]) -> None:
    """Whatever stands in the environment, the answer is a Config or a ConfigError."""
    try:
        Config.from_environ(environ)
    except ConfigError as error:
        assert all(fault.startswith("MUSTER_") for fault in error.faults)  # noqa: PT017


@pytest.mark.rule(125)
@pytest.mark.parametrize(
    "namespace",
    ["gate", "auto", "initiative", "project", "superseded-by", "Tracker", "a_b", "a:b", "-a", "é"],
)
def test_a_namespace_that_is_none_or_muster_s_own_is_a_fault(namespace: str) -> None:
    """Boot refuses a namespace that muster has a use for, and one that no tag could begin with."""
    (fault,) = faults_of({"MUSTER_PLUGIN_TASK_NAMESPACES": f"tracker,{namespace}"})
    assert fault.startswith("MUSTER_PLUGIN_TASK_NAMESPACES lists")
    assert namespace in fault
