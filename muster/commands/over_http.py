"""A command that asks a running server by its API, from a machine without the database."""

import json
from collections.abc import Mapping
from pathlib import Path

from muster.commands.exits import as_sentence
from muster.commands.tokens import TOKEN_CHARACTERS_MAX, bad_setting, read_secret, split_url
from muster.errors import Invalid, MusterError, NotFound, Refused, Unauthorized, Unavailable

TIMEOUT_SECONDS = 30.0
ANSWER_BYTES_MAX = 64 * 1024
_KINDS: Mapping[int, type[MusterError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Refused,
    404: NotFound,
    409: Refused,
}


def find_api_token(token_file: Path | None, environ: Mapping[str, str]) -> str:
    """The token of the file, else MUSTER_API_TOKEN, else MUSTER_HOOK_TOKEN, or the files of these.

    Raises Invalid, which never quotes it.
    """
    if token_file is not None:
        return read_api_token(token_file)
    for name in ("MUSTER_API_TOKEN", "MUSTER_HOOK_TOKEN"):
        found = read_secret(name, environ)
        if found is not None:
            return found.strip()
    raise bad_setting(
        "there is no token: give --token-file, or set MUSTER_API_TOKEN or MUSTER_HOOK_TOKEN",
        "token-file",
    )


def read_api_token(token_file: Path) -> str:
    """A personal token (mst_…) or the shared hook token; Invalid, which never quotes it."""
    token = (read_secret("", {}, file=token_file, field="token-file") or "").strip()
    plain = token.isascii() and token.isprintable() and " " not in token
    if not token or not plain or len(token) > TOKEN_CHARACTERS_MAX:
        raise bad_setting(f"there is no token in {token_file}", "token-file")
    return token


def post(
    url: str, path: str, *, token: str, body: Mapping[str, object] | None = None
) -> Mapping[str, object]:
    """Post `body`, or nothing, to `path` of the server at `url`; the JSON object of its answer.

    Raises what the server says as the error that a command on the database would raise, and
    Unavailable when there is no answer, after 30 s at the latest. Nothing is sent twice.
    """
    import httpx2

    from muster.clients.reasons import why_unconnected

    split_url(url)
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with (
            httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as client,
            client.stream("POST", url.rstrip("/") + path, headers=headers, json=body) as answer,
        ):
            said = b""
            for part in answer.iter_bytes():
                said += part
                if len(said) > ANSWER_BYTES_MAX:
                    raise Unavailable(f"{url} answers at too great a length; is it muster?")
    except httpx2.HTTPError as error:
        why = why_unconnected(error) or type(error).__name__
        raise Unavailable(as_sentence(f"no answer from {url}: {why}")) from error
    told = _read(said)
    if told is None:
        raise Unavailable(f"{url} answered {answer.status_code} and no JSON; is it muster?")
    if not answer.is_success:
        raise _error(answer.status_code, told)
    return told


def _read(body: bytes) -> dict[str, object] | None:
    try:
        told = json.loads(body)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _error(status: int, told: Mapping[str, object]) -> MusterError:
    sentence = str(told.get("error", f"The server answered {status}."))
    kind = _KINDS.get(status, Unavailable)
    facts = {name: each for name, each in told.items() if name not in {"error", "code"}}
    return kind(sentence, code=str(told.get("code", kind.default_code)), facts=facts)
