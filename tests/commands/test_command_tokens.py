"""Where a program's token is read from, and what keeps it from starting."""

from pathlib import Path

import pytest

from muster.commands.exits import Exit, exit_of
from muster.commands.tokens import (
    AGENT,
    PLUGIN,
    TokenSetting,
    client_faults,
    name_holder,
    read_token,
)
from muster.errors import MusterError
from tests.support.program import bare_program

SETTINGS = pytest.mark.parametrize("setting", [AGENT, PLUGIN])


@SETTINGS
def test_the_option_goes_before_the_environment(setting: TokenSetting, tmp_path: Path) -> None:
    """A token comes from --token-file, else from the setting or the file that it names."""
    token = f"{setting.prefix}of-the-test"
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    other = {setting.name: f"{setting.prefix}other"}
    assert read_token(setting, file, other) == token
    assert read_token(setting, None, {setting.name: token}) == token
    assert read_token(setting, None, {f"{setting.name}_FILE": str(file)}) == token


@SETTINGS
def test_a_token_that_is_replaced_has_the_same_holder(
    setting: TokenSetting, tmp_path: Path
) -> None:
    """A file stands for whoever's token is in it; tokens without a file stand for themselves."""
    file = tmp_path / "token"
    one = name_holder(setting, file, {setting.name: f"{setting.prefix}one"})
    assert name_holder(setting, None, {f"{setting.name}_FILE": str(file)}) == one
    assert name_holder(setting, tmp_path / "x" / ".." / "token", {}) == one
    alone = [name_holder(setting, None, {setting.name: setting.prefix + x}) for x in "aab"]
    assert len({one, *alone}) == 3


@SETTINGS
def test_two_tokens_are_one_too_many(setting: TokenSetting, tmp_path: Path) -> None:
    """A token in the environment beside a file that the environment names is a fault."""
    file = tmp_path / "token"
    file.write_text(f"{setting.prefix}one")
    both = {setting.name: f"{setting.prefix}two", f"{setting.name}_FILE": str(file)}
    with pytest.raises(MusterError, match="are both set") as refused:
        read_token(setting, None, both)
    assert exit_of(refused.value) is Exit.BAD_CONFIGURATION
    assert f"{setting.prefix}two" not in refused.value.sentence


@SETTINGS
def test_a_misspelt_setting_is_told(setting: TokenSetting, tmp_path: Path) -> None:
    """A MUSTER_* name that is none of muster's is a fault, as it is for the server."""
    file = tmp_path / "token"
    file.write_text(f"{setting.prefix}one")
    with pytest.raises(MusterError, match="the nearest is MUSTER_URL") as refused:
        read_token(setting, file, {"MUSTER_ULR": "http://localhost:8420"})
    assert exit_of(refused.value) is Exit.BAD_CONFIGURATION


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("MUSTER_URL", "localhost:8420", "MUSTER_URL must be http:// or https:// with a host"),
        ("MUSTER_URL", "http://localhost:99999", "MUSTER_URL must be http://"),
        ("MUSTER_PLUGIN_TOKEN", "mag_hunter2", "MUSTER_PLUGIN_TOKEN: The token is not a plugin's"),
        ("MUSTER_AGENT_TOKEN", "mpl_hunter2", "MUSTER_AGENT_TOKEN: The token is not an agent's"),
        ("MUSTER_AGENT_TOKEN_FILE", "/no/hunter2", "MUSTER_AGENT_TOKEN: Cannot read the file"),
    ],
)
def test_settings_of_clients_are_checked(name: str, value: str, told: str) -> None:
    """An address that is none and a token of another kind are faults, told without the token."""
    (fault,) = client_faults({name: value})
    assert fault.startswith(told)
    assert "hunter2" not in fault
    good = {"MUSTER_URL": "https://muster.example.test", "MUSTER_PLUGIN_TOKEN": "mpl_x"}
    assert client_faults(good) == ()


def test_config_check_tells_the_faults_of_clients(tmp_path: Path) -> None:
    """`muster config check` exits 78 with the faults of the server and of clients together."""
    settings = {"MUSTER_URL": "nonsense", "MUSTER_PLUGIN_TOKEN": "x", "MUSTER_DRAIN": "20"}
    told = bare_program(tmp_path).run("config", "check", "--json", **settings)
    assert told.code == Exit.BAD_CONFIGURATION
    named = [fault.split()[0].strip(":") for fault in told.refusal["faults"]]
    assert named == ["MUSTER_DRAIN", "MUSTER_URL", "MUSTER_PLUGIN_TOKEN"]
