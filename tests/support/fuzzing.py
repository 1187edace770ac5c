"""schemathesis as a program of its own, against a running server."""

import os
import subprocess
import sys
from pathlib import Path

import attrs
import trio

import tests
from tests.support.server import Server

TOP = Path(tests.__file__).parent.parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
)
# It reads the document, generates and reports beside the time that it may spend on requests.
MORE_SECONDS = 90
SAID_CHARACTERS = 6000


@attrs.frozen(kw_only=True)
class Fuzzed:
    """How a run ended."""

    code: int
    said: str


async def fuzz(
    server: Server, folder: Path, *, token: str | None, seconds: int, paths: str
) -> Fuzzed:
    """Ask the routes whose path matches `paths` for `seconds`; 0 is the code of a clean run.

    A wait of a claim is asked for as none: tests/web/test_plugin_api.py tries the long ones.
    """
    async with server.client() as client:
        document = folder / "openapi.json"
        document.write_bytes((await client.get("/openapi.json")).content)
    options = [
        f"--url={server.url}",
        f"--checks={','.join(CHECKS)}",
        f"--max-time={seconds}",
        f"--include-path-regex={paths}",
        "--request-timeout=20",
        "--suppress-health-check=all",
        "--warnings=off",
        "--no-color",
        "--generation-database=none",
        "--continue-on-failure",
    ]
    if token is not None:
        options.append(f"--header=Authorization: Bearer {token}")
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(document), *options]
    environ = os.environ | {
        "SCHEMATHESIS_HOOKS": "tests.support.fuzzing_hooks",
        "PYTHONPATH": str(TOP),
    }
    with trio.fail_after(seconds + MORE_SECONDS):
        ended = await trio.run_process(
            command,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
            env=environ,
            cwd=folder,
        )
    said = ended.stdout.decode(errors="replace")
    return Fuzzed(code=ended.returncode, said=said[-SAID_CHARACTERS:])
