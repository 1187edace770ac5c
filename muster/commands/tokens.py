"""The token of a program that knocks at muster: from a file or the environment, never an argument.

An argument is seen by every user of the machine.
"""

from collections.abc import Mapping
from pathlib import Path

import attrs

from muster.errors import Invalid

DEFAULT_URL = "http://localhost:8420"
TOKEN_CHARACTERS_MAX = 200


@attrs.frozen(kw_only=True)
class TokenSetting:
    """Where a kind of token is set, and how it begins."""

    name: str
    prefix: str
    whose: str


AGENT = TokenSetting(name="MUSTER_AGENT_TOKEN", prefix="mag_", whose="an agent's")
PLUGIN = TokenSetting(name="MUSTER_PLUGIN_TOKEN", prefix="mpl_", whose="a plugin's")


def read_token(setting: TokenSetting, token_file: Path | None, environ: Mapping[str, str]) -> str:
    """The token, from the option before the environment.

    Invalid, which never quotes it, when there is none that can be used; ConfigError when a setting
    is misspelt, for a token that is silently not read is hard to find.
    """
    from muster.config import refuse_unknown_names

    refuse_unknown_names(environ)
    file_setting = f"{setting.name}_FILE"
    if not token_file and environ.get(setting.name) and environ.get(file_setting):
        sentence = f"{setting.name} and {file_setting} are both set; keep one"
        raise bad_setting(sentence, "token-file")
    named = token_file or environ.get(file_setting)
    if named:
        try:
            token = Path(named).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            told = error.strerror if isinstance(error, OSError) else "it holds more than a token"
            raise bad_setting(f"cannot read the token in {named}: {told}", "token-file") from None
    else:
        token = environ.get(setting.name, "").strip()
    if not token:
        raise bad_setting(f"no token: give --token-file or set {setting.name}", "token-file")
    plain = token.isascii() and token.isprintable() and " " not in token
    if not token.startswith(setting.prefix) or not plain or len(token) > TOKEN_CHARACTERS_MAX:
        sentence = f"the token is not {setting.whose}: those begin with {setting.prefix}"
        raise bad_setting(sentence, "token-file")
    return token


def bad_setting(sentence: str, field: str | None) -> Invalid:
    """A setting of this program's cannot be used (exit 78)."""
    return Invalid(sentence, code="bad_configuration", field=field)
