"""`muster status` against a server that answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support.program import bare_program


@contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    """A server that gives every /readyz this answer; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_ready_server(tmp_path: Path) -> None:
    """A server that is ready is exit 0, found by MUSTER_URL or by what it is bound to."""
    with answering(200, b'{"status": "ready", "reasons": []}') as port:
        by_bind = bare_program(tmp_path).run("status", "--json", MUSTER_BIND=f"0.0.0.0:{port}")
        assert by_bind.document["ready"] is True
        assert by_bind.document["url"] == f"http://localhost:{port}"
        url = f"http://127.0.0.1:{port}"
        by_url = bare_program(tmp_path).run("status", MUSTER_URL=url)
        assert by_url.code == 0
        assert by_url.out.startswith(f"muster is ready.\n  {url}\n")


def test_what_this_shell_is_set_to_is_told_apart(tmp_path: Path) -> None:
    """What only these settings say is never told as if the server had said it."""
    with answering(200, b'{"status": "ready", "reasons": []}') as port:
        told = bare_program(tmp_path).call(
            "status", "--json", MUSTER_URL=f"http://127.0.0.1:{port}", MUSTER_DATA_DIR="/somewhere"
        )
    assert set(told.document) == {"ready", "url", "here"}
    assert told.document["here"]["data_dir"] == "/somewhere"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (json.dumps({"reasons": ["the database is away"]}).encode(), "the database is away"),
        (b"<html>\xff", "it answers 503"),
        (b"[]", "it answers 503"),
    ],
)
def test_a_server_that_is_not_ready(tmp_path: Path, body: bytes, told: str) -> None:
    """A server that is not ready is exit 6, with its reasons or with what it answered."""
    with answering(503, body) as port:
        ended = bare_program(tmp_path).call(
            "status", "--json", MUSTER_URL=f"http://127.0.0.1:{port}"
        )
    assert (ended.code, ended.refusal["code"]) == (6, "not_ready")
    assert told in ended.refusal["error"]


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://localhost", "http://localhost:99999", "http://"]
)
def test_a_url_that_is_none(tmp_path: Path, url: str) -> None:
    """A MUSTER_URL that names no server is a wrong setting, and no other server is asked."""
    ended = bare_program(tmp_path).call("status", "--json", MUSTER_URL=url)
    assert (ended.code, ended.refusal["code"]) == (78, "bad_configuration")
    assert "MUSTER_URL" in ended.refusal["error"]
