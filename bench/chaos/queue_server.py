"""A plain queue that hands out at least once: `… bench.chaos.queue_server PORT FILE SECONDS`.

It answers at the paths of the plugin API, so that the same clients can be let loose on it, and it
does what such queues do: each post is a new item, a claim hides the oldest item for SECONDS, and an
item without a result by then is handed out again. Items are kept in SQLite, synced, so that a kill
loses none. It is here to be caught: the ledgers must show what it does twice.
"""

import json
import sqlite3
import sys
import time
from functools import partial

import attrs
import trio

REQUEST_BYTES_MAX = 64 * 1024
REQUEST_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1
SCHEMA = """
create table if not exists items (
    id integer primary key, plugin text not null, external_id text not null,
    hidden_until real not null default 0, done integer not null default 0
)
"""
POST = "insert into items (plugin, external_id) values (?, ?)"
CLAIM = """
update items set hidden_until = :now + :seconds
where id = (select id from items where plugin = :plugin and not done and hidden_until <= :now
            order by id limit 1)
returning id, external_id
"""
DONE = "update items set done = 1 where plugin = ? and id = ?"


@attrs.frozen(kw_only=True)
class Queue:
    """The items; a plugin is known by its token."""

    db: sqlite3.Connection
    visible_seconds: float

    async def answer(self, path: str, token: str, body: bytes) -> tuple[int, object]:
        """What a request is answered with."""
        content = json.loads(body or b"{}")
        match path.split("/"):
            case ["", "healthz" | "readyz"]:
                return 200, {"status": "ready"}
            case ["", "plugin", "v1", "messages"]:
                added = self.db.execute(POST, (token, content["external_id"]))
                return 202, {"id": added.lastrowid, "status": "queued"}
            case ["", "plugin", "v1", "drafts", "claim"]:
                return await self._claim(token, content["wait_seconds"])
            case ["", "plugin", "v1", "drafts", draft_id, "result"]:
                self.db.execute(DONE, (token, int(draft_id)))
                return 200, {"status": "sent"}
            case _:
                return 404, {"error": "There is no such door.", "code": "not_found"}

    async def _claim(self, token: str, wait_seconds: float) -> tuple[int, object]:
        end = trio.current_time() + wait_seconds
        while True:
            values = {"now": time.time(), "seconds": self.visible_seconds, "plugin": token}
            found = self.db.execute(CLAIM, values).fetchone()
            if found is not None:
                return 200, {
                    "draft_id": found[0],
                    "message_external_id": found[1],
                    "body": "Noon works.",
                    "approved_at": "2026-01-01T00:00:00Z",
                }
            if trio.current_time() >= end:
                return 204, None
            await trio.sleep(POLL_SECONDS)


async def serve_one(queue: Queue, stream: trio.SocketStream) -> None:
    """Answer one request and close: the clients open a new connection then."""
    async with stream:
        with trio.move_on_after(REQUEST_SECONDS_MAX):
            try:
                await _serve(queue, stream)
            except trio.BrokenResourceError:
                return


async def _serve(queue: Queue, stream: trio.SocketStream) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await _more(stream, len(received))
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): text.strip() for name, _, text in (one.partition(":") for one in lines)
    }
    while len(body) < int(headers.get("content-length", "0")):
        body += await _more(stream, len(body))
    token = headers.get("authorization", "").removeprefix("Bearer ")
    status, document = await queue.answer(first.split()[1], token, body)
    content = b"" if document is None else json.dumps(document).encode()
    length = "" if status == 204 else f"Content-Length: {len(content)}\r\n"
    await stream.send_all(
        f"HTTP/1.1 {status} OK\r\nConnection: close\r\n{length}\r\n".encode() + content
    )


async def _more(stream: trio.SocketStream, so_far: int) -> bytes:
    if so_far > REQUEST_BYTES_MAX:
        raise trio.BrokenResourceError
    more = await stream.receive_some()
    if not more:
        raise trio.BrokenResourceError
    return bytes(more)


async def main(port: int, path: str, visible_seconds: float) -> None:
    """Serve until killed."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute(SCHEMA)
    queue = Queue(db=db, visible_seconds=visible_seconds)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        print(json.dumps({"event": "ready"}), flush=True)
        await trio.serve_listeners(partial(serve_one, queue), listeners, handler_nursery=nursery)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
