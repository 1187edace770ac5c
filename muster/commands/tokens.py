"""What a program that knocks at muster is set to: where muster is, and the token.

A token comes from a file or the environment, never an argument, which every user of the machine
sees.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from muster.commands.exits import as_sentence
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
MIRROR = TokenSetting(name="MUSTER_MIRROR_TOKEN", prefix="mmh_", whose="a mirror host's")
PLUGIN = TokenSetting(name="MUSTER_PLUGIN_TOKEN", prefix="mpl_", whose="a plugin's")


def read_token(setting: TokenSetting, token_file: Path | None, environ: Mapping[str, str]) -> str:
    """The token, from the option before the environment.

    Invalid, which never quotes it, when there is none that can be used; ConfigError when a setting
    is misspelt, for a token that is silently not read is hard to find.
    """
    from muster.config import refuse_unknown_names

    refuse_unknown_names(environ)
    return _read_token(setting, token_file, environ)


def name_holder(setting: TokenSetting, token_file: Path | None, environ: Mapping[str, str]) -> str:
    """What tells whose token it is, of all that is known before muster is asked.

    The file that it is read from, for that outlives a token which is replaced; else the token.
    """
    named = token_file or environ.get(f"{setting.name}_FILE")
    return str(Path(named).resolve()) if named else environ.get(setting.name, "")


def read_secret(
    name: str, environ: Mapping[str, str], *, file: Path | None = None, field: str | None = None
) -> str | None:
    """A secret from `file`, else from the setting `name` or the file that `name`_FILE names.

    None when it is nowhere. The end of a file's last line is no part of it. Invalid, about the
    option `field`, which never quotes the secret, when both settings are set or the file can't be
    read.
    """
    told, named = environ.get(name), environ.get(f"{name}_FILE")
    if file is None and told and named:
        raise bad_setting(f"{name} and {name}_FILE are both set; keep one.", field)
    if file is None and not named:
        return told or None
    try:
        return (file or Path(str(named))).read_text(encoding="utf-8").rstrip("\r\n") or None
    except (OSError, UnicodeDecodeError) as error:
        from muster.clients.reasons import why_unread

        # A secret that was set in place of its file must not be told.
        path = file or f"the file that {name}_FILE names"
        raise bad_setting(f"cannot read {path}: {why_unread(error)}", field) from None


def client_faults(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the settings of the programs that knock, one sentence each."""
    faults = []
    try:
        if environ.get("MUSTER_URL"):
            split_url(environ["MUSTER_URL"])
    except Invalid as error:
        faults.append(error.sentence)
    for setting in (AGENT, MIRROR, PLUGIN):
        if not (environ.get(setting.name) or environ.get(f"{setting.name}_FILE")):
            continue
        try:
            _read_token(setting, None, environ)
        except Invalid as error:
            faults.append(f"{setting.name}: {error.sentence}")
    return tuple(faults)


def split_url(url: str) -> tuple[bool, str, int]:
    """Whether MUSTER_URL is https, its host and its port; Invalid when it is no address."""
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise bad_setting(
            f"MUSTER_URL must be http:// or https:// with a host, such as {DEFAULT_URL}.", None
        )
    return secure, parts.hostname, port


def _read_token(setting: TokenSetting, token_file: Path | None, environ: Mapping[str, str]) -> str:
    secret = read_secret(setting.name, environ, file=token_file, field="token-file")
    token = (secret or "").strip()
    if not token:
        raise bad_setting(f"no token: give --token-file or set {setting.name}", "token-file")
    plain = token.isascii() and token.isprintable() and " " not in token
    if not token.startswith(setting.prefix) or not plain or len(token) > TOKEN_CHARACTERS_MAX:
        sentence = f"the token is not {setting.whose}: those begin with {setting.prefix}"
        raise bad_setting(sentence, "token-file")
    return token


def bad_setting(sentence: str, field: str | None) -> Invalid:
    """A setting of this program's cannot be used (exit 78)."""
    return Invalid(as_sentence(sentence), code="bad_configuration", field=field)
