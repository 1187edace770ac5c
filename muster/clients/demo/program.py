"""Plays the demo: server, chief and mail plugin as children, and a person or a stand-in for one."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from muster.clients.demo.children import (
    ChildEndedError,
    DemoError,
    leashed,
    muster,
    run,
    running,
)
from muster.clients.demo.report import Document, Seen, is_settled, of_mail, read_reply
from muster.clients.demo.stage import (
    CHIEF,
    CONFLICT,
    OWNER,
    PLUGIN,
    Stage,
    choose_bind,
    introduce,
    set_out,
)

STARTS_MAX = 5
READY_SECONDS = 90.0  # a first start makes the database
CONNECT_SECONDS = 30.0
ONCE_SECONDS = 120.0
LOOK_SECONDS = 0.5
TURNS_SECONDS = 20.0
LISTED_MAX = "500"
COMMANDS_MAX = 2  # at once, each a process
SERVER_PATIENCE_SECONDS = 30.0
CLIENT_PATIENCE_SECONDS = 10.0
DRAIN = "2s"

Say = Callable[[str], None]
ToType = Callable[..., str]


@attrs.define(kw_only=True, eq=False)
class Show:
    """A demo that runs: where it is, and what its chief has done so far."""

    stage: Stage
    url: str
    turns: trio.MemoryReceiveChannel[str]


@attrs.define(eq=False)
class _Ears:
    """Hears the JSON lines of a child: passes them on, sets the event of the one awaited."""

    awaited: str
    take: Callable[[Mapping[str, Any]], None]
    came: trio.Event = attrs.field(factory=trio.Event)
    first: Mapping[str, Any] = attrs.field(factory=dict)

    def __call__(self, line: str) -> None:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            return
        if event.get("event") == self.awaited and not self.came.is_set():
            self.first = event
            self.came.set()
        self.take(event)

    async def wait(self, seconds: float, told: str) -> Mapping[str, Any]:
        with trio.move_on_after(seconds):
            await self.came.wait()
            return self.first
        raise DemoError(f"{told} within {seconds:g} s")


@asynccontextmanager
async def showing(folder: Path, environ: Mapping[str, str], say: Say) -> AsyncIterator[Show]:
    """Set out the stage in `folder` and run server, chief and mail plugin while the block lasts."""
    stage = set_out(folder)
    send, turns = trio.open_memory_channel[str](1000)

    def take(event: Mapping[str, Any]) -> None:
        if event["event"] in {"turn.done", "turn.failed"}:
            # Nobody reads when nobody watches: what does not fit is not missed.
            try:
                send.send_nowait(str(event["text"]).partition(": ")[0])
            except trio.WouldBlock:
                return

    connected = _Ears("connected", take)
    async with _serving(stage, environ, say) as url:
        say(f"adding the account {OWNER}, a mail plugin and a chief")
        await introduce(stage)
        say("starting the chief and the mail plugin")
        async with running(
            "agent",
            _agent(stage, url),
            stage.environment(),
            heard=connected,
            patience_seconds=CLIENT_PATIENCE_SECONDS,
        ):
            await connected.wait(CONNECT_SECONDS, "the chief was not connected")
            async with running(
                "mail plugin",
                _mail(stage, url),
                stage.environment(),
                heard=lambda _line: None,
                patience_seconds=CLIENT_PATIENCE_SECONDS,
            ):
                yield Show(stage=stage, url=url, turns=turns)


@asynccontextmanager
async def _serving(stage: Stage, environ: Mapping[str, str], say: Say) -> AsyncIterator[str]:
    """Run the server; its address.

    Another program may take the port between the look at it and the server's start, another demo
    above all: the server says so by its exit code, and has the next free port.
    """
    say("starting the server (the first time it makes a database)")
    for start in range(STARTS_MAX):
        ready = _Ears("ready", lambda _event: None)
        settings = {"MUSTER_BIND": await choose_bind(environ), "MUSTER_PLUGINS": "1"}
        server = stage.environment(**settings, MUSTER_DRAIN=DRAIN, MUSTER_LOG="warning")
        patience_seconds = SERVER_PATIENCE_SECONDS
        try:
            async with running(
                "server", leashed("serve"), server, heard=ready, patience_seconds=patience_seconds
            ):
                url = str((await ready.wait(READY_SECONDS, "the server was not ready"))["url"])
                yield url
        except BaseExceptionGroup as group:
            is_last = start == STARTS_MAX - 1 or bool(environ.get("MUSTER_BIND"))
            if ready.came.is_set() or is_last or not _is_conflict(group):
                raise
            say(f"{settings['MUSTER_BIND']} was taken meanwhile; trying the next free port")
        else:
            return


def _is_conflict(group: BaseExceptionGroup[BaseException]) -> bool:
    conflicts, rest = group.split(
        lambda error: isinstance(error, ChildEndedError) and error.code == CONFLICT
    )
    return conflicts is not None and rest is None


def _agent(stage: Stage, url: str) -> list[str]:
    script = ("--backend", "script", "--script", str(stage.script))
    token = ("--token-file", str(stage.token(CHIEF)))
    return leashed("agent", "run", *script, "--url", url, *token, "--json")


def _mail(stage: Stage, url: str) -> list[str]:
    folders = ("--maildir", str(stage.inbox), "--outbox", str(stage.outbox))
    token = ("--state", str(stage.state), "--token-file", str(stage.token(PLUGIN)))
    return leashed("mail", *folders, "--no-dns", "--url", url, *token)


async def play_once(folder: Path, environ: Mapping[str, str], say: Say) -> dict[str, Any]:
    """Do the loop without a person and tell what became of each mail (within 120 s)."""
    began = trio.current_time()
    async with showing(folder, environ, say) as show:
        with trio.move_on_after(ONCE_SECONDS):
            await _decide_all(show, say)
        seen = attrs.evolve(await _look(show.stage), audit=await _listed(show.stage, "audit"))
        told = [of_mail(mail, seen) for mail in show.stage.mails]
        url = show.url
    return {
        "ok": all(each["ok"] for each in told),
        "url": url,
        "data_dir": str(show.stage.data),
        "seconds": round(trio.current_time() - began, 3),
        "messages": told,
    }


async def _decide_all(show: Show, say: Say) -> None:
    """Approve each draft, by the digest of what was read, until every mail is settled."""
    limit = trio.CapacityLimiter(COMMANDS_MAX)
    # Each look costs two processes: in a new folder there is nothing to see before the turns.
    with trio.move_on_after(TURNS_SECONDS if show.stage.is_new else 0):
        for _mail in show.stage.mails:
            await show.turns.receive()
    while True:
        seen = await _look(show.stage)
        if all(is_settled(mail, seen) for mail in show.stage.mails):
            return
        async with trio.open_nursery() as nursery:
            for draft in seen.drafts:
                if draft["state"] == "pending":
                    nursery.start_soon(_approve, show.stage, draft, say, limit)
        await trio.sleep(LOOK_SECONDS)


async def _approve(stage: Stage, draft: Document, say: Say, limit: trio.CapacityLimiter) -> None:
    number, read = str(draft["draft_id"]), hashlib.sha256(draft["body"].encode())
    exactly = ("--sha256", read.hexdigest(), "--owner", OWNER, "--json")
    async with limit:
        await run(muster("drafts", "approve", number, *exactly), stage.environment())
    say(f"draft {number} is approved")


async def _look(stage: Stage) -> Seen:
    # In this order: whoever sees a message delivered must see the draft of its turn too.
    return Seen(
        messages=await _listed(stage, "messages", "list"),
        drafts=await _listed(stage, "drafts", "list"),
        replies=[read_reply(path) for path in outbox_files(stage)],
    )


async def _listed(stage: Stage, *command: str) -> list[Document]:
    arguments = (*command, "--owner", OWNER, "--limit", LISTED_MAX, "--json")
    documents: list[Document] = await run(muster(*arguments), stage.environment())
    return documents


def outbox_files(stage: Stage) -> list[Path]:
    """The replies that lie in the outbox, by name."""
    return sorted(path for name in ("new", "cur") for path in (stage.outbox / name).glob("[!.]*"))


async def play(
    folder: Path, environ: Mapping[str, str], say: Say, *, kept: bool, to_type: ToType
) -> None:
    """Run the demo for a person, who decides, until cancelled.

    `to_type` spells a muster command, with its settings, as the person may type it.
    """
    async with showing(folder, environ, say) as show:
        say(_invitation(show, to_type, kept=kept))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tell_turns, show, say)
            nursery.start_soon(_tell_sent, show, say)


async def _tell_turns(show: Show, say: Say) -> None:
    async for told in show.turns:
        say(f"the chief: {told}")


async def _tell_sent(show: Show, say: Say) -> None:
    known = set(outbox_files(show.stage))
    while True:
        for path in outbox_files(show.stage):
            if path not in known:
                known.add(path)
                say(f"sent: {path}")
        await trio.sleep(LOOK_SECONDS)


def _invitation(show: Show, to_type: ToType, *, kept: bool) -> str:
    stage = show.stage
    prefix = to_type("drafts", settings={"MUSTER_DATA_DIR": str(stage.data)})
    fate = "it stays" if kept else "removed at the end; --data-dir keeps one"
    draft = "1" if stage.is_new else "ID"
    return f"""
A muster of your own runs at {show.url}, in {stage.folder} ({fate}).
{len(stage.mails)} mails lie in {stage.inbox}. The plugin brings them in, the chief reads
each and drafts replies, and nothing leaves before you say so. In another terminal:

  {prefix} list --owner {OWNER}
      the replies that wait for your word
  {prefix} show {draft} --owner {OWNER}
      one of them whole, beside the mail that it answers
  {prefix} approve {draft} --owner {OWNER}
      it is sent, once: a line appears here, and a mail in {stage.outbox}

Ctrl-C ends the demo.
"""
