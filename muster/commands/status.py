"""`muster status`: whether a server runs here, and whether it is well."""

import http.client
import importlib.metadata
import json
import os

import click

from muster.commands.next_step import to_type
from muster.commands.options import json_option
from muster.commands.output import print_json, print_pairs, shown
from muster.commands.tokens import split_url
from muster.errors import Unavailable

TIMEOUT_SECONDS = 5.0
ANSWER_BYTES_MAX = 64 * 1024
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    """Tell whether all is well; exit 6 when no server answers or it is not ready.

    Asks the server at MUSTER_URL, or else the one that these settings would start here. Below its
    answer stand settings of this shell, which are not those of a server that was started with
    others.
    """
    from muster.config import Config

    config = Config.from_environ(os.environ)
    named = os.environ.get("MUSTER_URL", "")
    if named:
        secure, host, port = split_url(named)
    else:
        host = _EVERYWHERE.get(config.bind_host, config.bind_host)
        secure, port = False, config.bind_port
    answer = _ask(host, port, secure=secure)
    if answer.status != http.HTTPStatus.OK:
        raise Unavailable(
            f"The server at {host}:{port} is not ready: {answer.told}", code="not_ready"
        )
    told = named or config.public_url
    here = {
        "version": importlib.metadata.version("muster-server"),
        "data_dir": str(config.data_dir),
        "database": "configured" if config.database_url else "embedded",
    }
    if as_json:
        print_json({"ready": True, "url": told, "here": here})
        return
    click.echo(f"muster is ready.\n  {shown(told)}\nCommands from this shell use:")
    print_pairs((name, shown(value)) for name, value in here.items())


class _Answer:
    def __init__(self, status: int, told: str) -> None:
        self.status = status
        self.told = told


def _ask(host: str, port: int, *, secure: bool) -> _Answer:
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read(ANSWER_BYTES_MAX).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(
            f"No server answers at {host}:{port}; this starts one: {to_type('serve')}"
        ) from error
    finally:
        connection.close()
    return _Answer(response.status, _reasons(body) or f"it answers {response.status}")


def _reasons(body: str) -> str:
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    reasons = document.get("reasons") if isinstance(document, dict) else None
    return "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
