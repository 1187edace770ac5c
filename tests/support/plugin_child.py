"""A plugin in a process of its own that kills itself (SIGKILL) at a named moment.

Run as `python -m tests.support.plugin_child URL STATE_FOLDER UPSTREAM MOMENT PROOF`. What it sends
is a line in the file UPSTREAM, synced before `send` goes on. MOMENT is `before:STEP`, `after:STEP`
(a step of the journal), `in:send`, or `never`; PROOF is `proof` when the upstream can be asked.
"""

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from muster.clients.plugin import (
    Draft,
    Journal,
    Message,
    PluginClient,
    Posted,
    RefusedError,
    Result,
    SendLaterError,
    Sent,
    open_journal,
    run_plugin,
    run_plugin_once,
)
from tests.support.scripted_server import TOKEN

STEPS = (
    "record_claimed",
    "record_sending",
    "record_not_sent",
    "record_done",
    "record_reported",
)
MOMENTS = [
    *(f"{when}:{step}" for step in STEPS for when in ("before", "after")),
    "in:send",
]


class KillingJournal(Journal):
    """A journal whose process dies at one moment."""

    moment = "never"

    def reach(self, moment: str) -> None:
        """Die, if this is the moment."""
        if moment == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)

    async def record_claimed(self, draft: Draft, *, claimed_at: float) -> bool:
        """As the journal does."""
        self.reach("before:record_claimed")
        is_new = await super().record_claimed(draft, claimed_at=claimed_at)
        self.reach("after:record_claimed")
        return is_new

    async def record_sending(self, draft_id: int) -> None:
        """As the journal does."""
        self.reach("before:record_sending")
        await super().record_sending(draft_id)
        self.reach("after:record_sending")

    async def record_not_sent(self, draft_id: int) -> None:
        """As the journal does."""
        self.reach("before:record_not_sent")
        await super().record_not_sent(draft_id)
        self.reach("after:record_not_sent")

    async def record_done(self, draft_id: int, result: Result) -> None:
        """As the journal does."""
        self.reach("before:record_done")
        await super().record_done(draft_id, result)
        self.reach("after:record_done")

    async def record_reported(self, draft_id: int, answer: str) -> None:
        """As the journal does."""
        self.reach("before:record_reported")
        await super().record_reported(draft_id, answer)
        self.reach("after:record_reported")


class Nothing:
    """A source without messages."""

    async def fetch(self) -> Sequence[Message]:
        """Nothing, ever."""
        return []

    async def accepted(self, message: Message, posted: Posted) -> None:
        """Never called."""
        raise AssertionError((message, posted))

    async def refused(self, message: Message, refusal: RefusedError) -> None:
        """Never called."""
        raise AssertionError((message, refusal))


class FileUpstream:
    """A sink whose sendings are lines of a file."""

    def __init__(self, path: Path, journal: KillingJournal, *, can_prove: bool) -> None:
        self.path = path
        self.journal = journal
        self.can_prove = can_prove

    async def send(self, draft: Draft) -> Sent:
        """Write the line, durably; an upstream that is to be busy is, and writes nothing."""
        if self.journal.moment.endswith("record_not_sent"):
            raise SendLaterError("busy")
        line = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{draft.draft_id}\n".encode())
        os.fsync(line)
        os.close(line)
        self.journal.reach("in:send")
        return Sent(f"line-{draft.draft_id}")

    async def was_sent(self, draft: Draft) -> str | None:
        """Look for the line, if this upstream can be asked."""
        lines = self.path.read_text().split() if self.path.exists() else []
        return f"line-{draft.draft_id}" if self.can_prove and str(draft.draft_id) in lines else None


async def main(url: str, folder: str, upstream: str, moment: str, proof: str) -> None:
    """Run until the moment; without one, until there is nothing to do."""
    async with open_journal(Path(folder)) as plain, PluginClient(url, TOKEN) as client:
        journal = KillingJournal(plain._file)
        journal.moment = moment
        sink = FileUpstream(Path(upstream), journal, can_prove=proof == "proof")
        if moment == "never":
            await run_plugin_once(client, journal, source=Nothing(), sink=sink)
        else:
            await run_plugin(client, journal, source=Nothing(), sink=sink)


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
