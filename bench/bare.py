"""`python -m bench.bare`: a Quart-Trio handler with nothing behind it, on muster's serve floor.

It reads a JSON body and answers one: what a request costs before muster does anything with it.
"""

import functools
import json
import sys

import trio
from quart import Response, request
from quart_trio import QuartTrio

from bench.load import BARE_PATH
from web.serve import serve


def make_app() -> QuartTrio:
    """The application: one route."""
    app = QuartTrio("bare", static_folder=None)
    app.config.update(PROPAGATE_EXCEPTIONS=True, RESPONSE_TIMEOUT=None, BODY_TIMEOUT=None)

    @app.post(BARE_PATH)
    async def echo() -> Response:
        json.loads(await request.get_data(as_text=False))
        return Response('{"id":1,"status":"queued"}', status=202, content_type="application/json")

    return app


async def _main() -> None:
    async with trio.open_nursery() as nursery:
        start = functools.partial(
            serve,
            make_app(),  # type: ignore[arg-type]
            host="127.0.0.1",
            port=0,
            report=lambda crash, where: print(where, repr(crash), file=sys.stderr),
            shutdown=trio.Event(),
        )
        port = await nursery.start(start)
        print(json.dumps({"event": "ready", "port": port}), flush=True)


if __name__ == "__main__":
    trio.run(_main)
