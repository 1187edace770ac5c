"""Where a program's token is read from, and what keeps it from starting."""

from pathlib import Path

import pytest

from muster.commands.exits import Exit, exit_of
from muster.commands.tokens import AGENT, PLUGIN, TokenSetting, read_token
from muster.errors import MusterError

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
