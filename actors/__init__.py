"""Supervised actors on Trio: one page of semantics.

**Actor.** One task, one mailbox, one message at a time: `started()`, then `handle(message)` for
each, then `stopping()`. What it keeps in attributes is a cache: `started()` reads the truth
again, so a restart is always safe. Slow work goes into `self.nursery`, so that the mailbox stays
responsive; its tasks are cancelled when the actor stops, before `stopping()`, and a crash in one
is a crash of the actor.

**Ordering.** A mailbox is first in, first out, so the messages of one sender arrive in the order
sent; nothing is said about two senders. `tell(key=…)` replaces the waiting message of that key:
the newest content at the oldest place. A message being handled no longer waits, so a hint told
meanwhile is handled after it.

**Priority.** Orders of the tree (stop, leave) have a queue of their own, overtake every message
and are never refused; they don't interrupt the message in hand until its deadline is over.

**Bounds.** Mailboxes, timers and logs are bounded. `tell` never waits; a full mailbox raises
MailboxFull in the sender, and is reported once until it has drained to half.

**Asking.** `ask` has a deadline. What `handle` returns is the answer; `self.defer()` takes the
question over to answer it later. An answer whose asker is gone is discarded, and the actor learns
it (`unreceived`, or False from `Ask.answer`), so that a grant nobody received can be taken back.
A question whose asker is gone before it was begun is never handled. Ask down the tree; a circle
of actors that would wait for each other is refused with AskCycle.

**Supervision.** Children start in order, each when the one before is up, and stop in reverse
order; dynamic children stop first, all together. Permanent children restart when they crash or
finish, transient ones when they crash, temporary ones never. One-for-one restarts the child,
rest-for-one also those after it, one-for-all all. Restarts back off, and one more than
`intensity.restarts` within the window makes the supervisor give up: it stops its children and its
parent judges it like a crashed child. The root's giving up cancels the block of `open_tree` and
raises GaveUp there.

**What a crash loses.** The message in hand (never redelivered), the questions in hand and
deferred (their askers get ActorCrashed), timers and their waiting messages, tasks of the nursery
and all attributes. `stopping()` does not run. What waits in the mailbox stays, and addresses stay
good. When a supervisor restarts, the mailboxes of its spec's children stay too; its dynamic
children are gone.

**Cancel.** A cancel is never a crash. A stop gives the message in hand `stop_seconds`, then
cancels it; `stopping()` has `stop_seconds` more. A cancel around `open_tree` or `attached` is
such a stop. KeyboardInterrupt and SystemExit pass through everything and end the tree at once.

**Dynamic children.** `tell_or_start` and `leave_if_idle` are synchronous. A child leaves only
with an empty mailbox, no holder and no work in its nursery, and what is told to it before it has
quite ended starts it anew afterwards: no message is lost, and two of one path never overlap.
`stop_child` drops what waits.

**Reports.** Each start, exit, crash, restart, give-up, full mailbox and slow handler is one
Report in the log, whose `put` never blocks. A crash is one Report however many tasks it took
along.
"""

from actors.actor import Actor
from actors.address import Address
from actors.ask import Ask, AskCycle, AskTimeout
from actors.exits import (
    ActorCrashed,
    ActorStopped,
    Exit,
    ExitKind,
    GaveUp,
    NameTaken,
    Undelivered,
    sole_error,
)
from actors.log import ActorLog, Event, Log, Report, Subscription, write_json_lines
from actors.mailbox import MailboxFull
from actors.opening import open_tree
from actors.restart import Intensity, Policy
from actors.specs import ChildSpec, Strategy, SupervisorSpec
from actors.timers import Timers, TooManyTimers
from actors.tree import SupervisorHandle, Tree

__all__ = [
    "Actor",
    "ActorCrashed",
    "ActorLog",
    "ActorStopped",
    "Address",
    "Ask",
    "AskCycle",
    "AskTimeout",
    "ChildSpec",
    "Event",
    "Exit",
    "ExitKind",
    "GaveUp",
    "Intensity",
    "Log",
    "MailboxFull",
    "NameTaken",
    "Policy",
    "Report",
    "Strategy",
    "Subscription",
    "SupervisorHandle",
    "SupervisorSpec",
    "Timers",
    "TooManyTimers",
    "Tree",
    "Undelivered",
    "open_tree",
    "sole_error",
    "write_json_lines",
]
