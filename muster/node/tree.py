"""The tree of one server, readable from top to bottom.

    root ─┬─ database ─┬─ postgres           the embedded one, when muster runs it
          │            ├─ listener           hints of other processes; a lost connection restarts it
          │            └─ supervision-sink   reports into the database
          ├─ outbox     hints to other servers, while there are some
          ├─ sweeps     leases, expiries, lost hints, unrouted messages, queues, resumes; one each
          ├─ push ── pusher     tells owners, at their devices, of what waits for them
          └─ owners (dynamic) ── owner:7 ─┬─ chief
                                          └─ agent:31

The accept loop is the body of the tree: it begins when all of this is up and ends before any of it
is stopped. Children start in this order and stop in reverse. A database that is away crashes nobody
but the children of `database`, whose restarts are patient, so that muster finds a restarted
PostgreSQL again by itself.
"""

from collections.abc import Sequence

from actors import Actor, ChildSpec, Intensity, SupervisorSpec
from muster.chief.operations.routing.answering import RelaySettings
from muster.drafts.actor import Waiters
from muster.node import ask_sweeps, mirror_sweeps, route_sweeps, sweeps
from muster.node.nodes import Heartbeat
from muster.node.owners import OWNERS
from muster.pg.database import Database

# The database's absence is no reason to give up: one restart every two seconds, for as long as it
# takes, stays within this many in a window.
PATIENT = Intensity(restarts=1000, window_seconds=60.0, backoff_max_seconds=2.0)

LEASE_SECONDS = 2.0  # a lapsed lease is written within 5 s
EXPIRY_SECONDS = 30.0
UNROUTED_SECONDS = 30.0
CLAIMABLE_SECONDS = 3.0
LAST_SEEN_SECONDS = 60.0
HEARTBEAT_SECONDS = 5.0
SENDS_SECONDS = 10.0
ROUTES_SECONDS = 30.0
FORGET_SECONDS = 300.0


def tree_spec(
    *,
    database: Sequence[ChildSpec],
    outbox: ChildSpec,
    pusher: ChildSpec,
    resumes: ChildSpec,
    db: Database,
    waiters: Waiters,
    seen: sweeps.Seen,
    heartbeat: Heartbeat,
    stepup_window_seconds: int,
    relays: RelaySettings,
) -> SupervisorSpec:
    """Lay out the tree. `database` are the children that speak to PostgreSQL itself, in order."""

    async def settle_sends() -> str | None:
        return await mirror_sweeps.settle_sends(db, stepup_window_seconds=stepup_window_seconds)

    # A row that one of them always stumbles over must not end the server: every read sees by itself
    # what is due.
    clock = SupervisorSpec(
        name="sweeps",
        intensity=PATIENT,
        children=[
            _sweep("leases", lambda: sweeps.lapse_leases(db), LEASE_SECONDS),
            _sweep("expiries", lambda: sweeps.expire_drafts(db), EXPIRY_SECONDS),
            _sweep("asks", lambda: ask_sweeps.expire_asks(db), EXPIRY_SECONDS),
            _sweep("unrouted", lambda: ask_sweeps.ask_about_unrouted(db), UNROUTED_SECONDS),
            _sweep("claimable", lambda: sweeps.wake_for_claimable(db, waiters), CLAIMABLE_SECONDS),
            _sweep("sends", settle_sends, SENDS_SECONDS),
            _sweep("routes", lambda: route_sweeps.sweep_routes(db, relays), ROUTES_SECONDS),
            _sweep("mirrored", lambda: mirror_sweeps.forget_mirrored(db), FORGET_SECONDS),
            resumes,
            _sweep("last-seen", lambda: sweeps.write_last_seen(db, seen), LAST_SEEN_SECONDS),
            _sweep("heartbeat", heartbeat.beat, HEARTBEAT_SECONDS),
        ],
    )
    patient = SupervisorSpec(name="database", intensity=PATIENT, children=database)
    # What is sent to machines elsewhere may fail in ways that nobody thought of; that ends nobody.
    push = SupervisorSpec(name="push", intensity=PATIENT, children=[pusher])
    return SupervisorSpec(name="root", children=[patient, outbox, clock, push, OWNERS])


def _sweep(name: str, work: sweeps.Work, interval_seconds: float) -> ChildSpec:
    def start() -> Actor:
        return sweeps.Sweep(work, interval_seconds=interval_seconds)

    return ChildSpec(name=name, start=start, slow_seconds=30.0)
