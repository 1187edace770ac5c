"""The SDK for plugin authors, on Trio.

A plugin connects muster to another system: it posts that system's messages and sends the
replies that the owner approved. A whole plugin is a source, a sink and what runs them:

    from pathlib import Path

    import trio
    from muster.clients.plugin import Message, PluginClient, Sent, open_journal, run_plugin

    class Hello:
        # One message; its id makes a repeat harmless.

        waiting = [Message(external_id="hello", sender="me", body="Does noon work?")]

        async def fetch(self):
            return list(self.waiting)

        async def accepted(self, message, posted):
            self.waiting.remove(message)

        async def refused(self, message, refusal):
            self.waiting.remove(message)

    class Prints:
        async def send(self, draft):
            print(draft.body, flush=True)
            return Sent(f"printed-{draft.draft_id}")

        async def was_sent(self, draft):
            return None  # nobody can prove it

    async def main():
        token = Path("hello.token").read_text().strip()
        async with (
            open_journal(Path("state")) as journal,
            PluginClient("http://localhost:8420", token) as client,
        ):
            await run_plugin(client, journal, source=Hello(), sink=Prints())

    trio.run(main)

What the SDK does for its author (plugins: "The plugin author's contract"):

- `post`, `post_task` and `report` are repeated until they are answered, with backoff and jitter,
  and obey `Retry-After`. A claim is never repeated: one whose answer was lost is lost.
- Each draft is written to the journal before it is sent, so that a kill at any point never
  sends a `draft_id` twice; one process per state folder.
- A sending that is known not to have happened (SendLaterError) is tried again, while its lease
  lasts.
- A result is reported again, after restarts too, until muster answers it.

Limits: a claim waits 0 to 25 s and times out 10 s later; an answer to anything else takes at most
30 s; `external_ref` has 200 characters and `detail` 4 KiB (longer ones are fitted, with a mark).
A draft is sent only while at least 30 s of its 2-minute lease are left.
"""

from muster.clients.plugin.client import PluginClient, note_on_stderr
from muster.clients.plugin.journal import Entry, Journal, State, open_journal
from muster.clients.plugin.loop import Pace, Sink, Source, run_plugin, run_plugin_once
from muster.clients.plugin.wire import (
    ClaimLostError,
    Draft,
    Message,
    Notice,
    Noticed,
    NotSignedInError,
    PluginError,
    PluginsOffError,
    Posted,
    RefusedError,
    Reported,
    Result,
    SendFailedError,
    SendLaterError,
    SendUnknownError,
    Sent,
    TryLaterError,
    UnexpectedAnswerError,
    UnreachableError,
    Verdict,
)
from muster.clients.state_folder import StateFolderBusyError
from muster.clients.stopping import until_stopped

__all__ = [
    "ClaimLostError",
    "Draft",
    "Entry",
    "Journal",
    "Message",
    "NotSignedInError",
    "Notice",
    "Noticed",
    "Pace",
    "PluginClient",
    "PluginError",
    "PluginsOffError",
    "Posted",
    "RefusedError",
    "Reported",
    "Result",
    "SendFailedError",
    "SendLaterError",
    "SendUnknownError",
    "Sent",
    "Sink",
    "Source",
    "State",
    "StateFolderBusyError",
    "TryLaterError",
    "UnexpectedAnswerError",
    "UnreachableError",
    "Verdict",
    "note_on_stderr",
    "open_journal",
    "run_plugin",
    "run_plugin_once",
    "until_stopped",
]
