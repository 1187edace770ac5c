"""The storm over the mail plugin: mail from a real dovecot, replies to an SMTP server that syncs.

Four owners have a mailbox each, which a `muster mail` of theirs reads. Beside the nemeses of every
storm, dovecot and the plugins are killed, and the SMTP server dies or drops a connection after it
took a mail. Every mail that was put into a mailbox must be exactly one message; no reply may reach
the SMTP server twice.
"""

import random
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import attrs
import trio

from bench.chaos.books import Books
from bench.chaos.cast import client, make_agents
from bench.chaos.children import ChaosError, Child, environment, muster
from bench.chaos.forms import STOP_SECONDS
from bench.chaos.injector import Mailbox
from bench.chaos.ledger import Ledger
from bench.chaos.nemeses import Nemeses, Plan
from bench.chaos.orders import Orders
from bench.chaos.outage import measure_outages
from bench.chaos.parties import Party, make_parties
from bench.chaos.rows import Rows
from bench.chaos.scene import Say, Scene, open_scene, read_turns
from bench.chaos.storm import Outcome
from bench.chaos.verdict import Verdict, judge_replies
from bench.dovecot import Dovecot, running_dovecot, why_no_dovecot
from bench.ports import free_port
from muster.errors import Unavailable

OWNERS = 4
MAILS_PER_HOUR = 50  # 60 an hour is what muster takes of a plugin; the rest are nudges
PASSWORD = "open-sesame"
CALM_SECONDS_MAX = 600.0
QUIET_SECONDS = 10.0
POLL_SECONDS = 1.0
DEADLY = 0.01
LONG_MINUTES = 20.0


@attrs.define(kw_only=True)
class MailStorm:
    """One storm over mail plugins."""

    minutes: float
    seed: int
    scene: Scene
    dovecot: Dovecot
    parties: list[Party]
    boxes: list[Mailbox]

    async def run(self) -> Outcome:
        """Put mail into the boxes while everything is killed, wait until it is calm, and judge."""
        began = time.monotonic()
        scene = self.scene
        agents = make_agents(scene.folder, scene.server.url, self.parties)
        clients = self._clients()
        nemeses = Nemeses(
            plan=self._plan(),
            random=random.Random(f"nemeses {self.seed}"), server=scene.server,
            cluster=scene.cluster, clients=[*agents, *clients], say=scene.say,
            dovecot=self.dovecot,
        )  # fmt: skip
        try:
            async with trio.open_nursery() as nursery:
                for child in (*agents, *clients):
                    nursery.start_soon(scene.keeper.keep, child)
                chance = random.Random(f"owners {self.seed}")
                nursery.start_soon(scene.approve, self.parties, chance)
                with Ledger(scene.folder / "injector.ledger") as ledger:
                    async with trio.open_nursery() as work:
                        self._inject(work, ledger)
                        await nemeses.run()
                    scene.say("the nemeses are done; everything calms down")
                    await until_stored(scene, self.parties)
                    calm_at = time.monotonic()
                    await scene.until_nothing_waits(self.parties, self._nudge(ledger))
                    await until_stored(scene, self.parties)
                await self._until_quiet()
                await scene.keeper.close()
                nursery.cancel_scope.cancel()
        finally:
            await scene.keeper.kill_all()
        books = scene.read_books()
        rows = await scene.read_rows(self.parties)
        verdict = judge_replies(books, rows, read_turns(agents), self._read_journals())
        judge_mails(verdict, books, rows)
        verdict.odd += scene.keeper.faults + await scene.stop_server()
        return Outcome(
            verdict=verdict,
            outages=measure_outages(books.sendings, nemeses.blows, began=began, ended=calm_at),
            blows=nemeses.blows,
            deaths=books.deaths,
            seconds=time.monotonic() - began,
        )

    def _plan(self) -> Plan:
        """More than there is time for: the minutes end it."""
        return Plan(
            kills=int(self.minutes * 60 / 3) + 1,
            stop_seconds=STOP_SECONDS if self.minutes >= LONG_MINUTES else 0.0,
            minutes=self.minutes,
            clients=4,
            dovecots=2,
        )

    def _mails(self) -> int:
        return max(5, min(MAILS_PER_HOUR, int(self.minutes * 10)))

    def _inject(self, nursery: trio.Nursery, ledger: Ledger) -> None:
        count = self._mails()
        every_seconds = self.minutes * 60 * 0.9 / count
        for number, box in enumerate(self.boxes):
            chance = random.Random(f"injector {number} {self.seed}")
            nursery.start_soon(box.inject_all, count, every_seconds, ledger, chance)

    def _nudge(self, ledger: Ledger) -> "Nudging":
        return Nudging(
            boxes={box.plugin: box for box in self.boxes}, first=self._mails(), ledger=ledger
        )

    def _clients(self) -> list[Child]:
        folder = self.scene.folder
        orders = Orders(
            name="smtp", port=free_port(), seed=self.seed, folder=str(folder), plugins=[],
            active=0, every_seconds=0, deadly=DEADLY,
        )  # fmt: skip
        orders.write()
        plugins = [
            Child(
                command=muster(
                    *("mail", "--imap", f"imap+plain://{box.user}@127.0.0.1:{box.port}"),
                    *("--since", "all", "--smtp", f"smtp+plain://127.0.0.1:{orders.port}"),
                    *("--from", f"{box.user}@home.test", "--no-dns"),
                    *("--state", str(folder / "state" / box.plugin)),
                    *("--url", self.scene.server.url),
                ),
                environ=environment(
                    {
                        "MUSTER_PLUGIN_TOKEN": party.plugins[0].token,
                        "MUSTER_MAIL_IMAP_PASSWORD": box.password,
                    }
                ),
                folder=folder,
                name=f"mail-{box.user}",
            )
            for box, party in zip(self.boxes, self.parties, strict=True)
        ]
        return [client("smtp_child", orders), *plugins]

    async def _until_quiet(self) -> None:
        """Wait until the SMTP server was not handed a mail for a while."""
        before, since = -1, time.monotonic()
        with trio.move_on_after(CALM_SECONDS_MAX):
            while time.monotonic() - since < QUIET_SECONDS:
                sent = (await self.scene.look()).sent.total()
                if sent != before:
                    before, since = sent, time.monotonic()

    def _read_journals(self) -> Mapping[int, str]:
        """What each plugin's journal says of its drafts, for the list of what is unknown."""
        told: dict[int, str] = {}
        for box in self.boxes:
            told |= _read_journal(self.scene.folder / "state" / box.plugin / "journal.sqlite3")
        return told


async def until_stored(scene: Scene, parties: Sequence[Party]) -> None:
    """Wait until every mail is a message; what is missing after that is for the verdict."""
    with trio.move_on_after(CALM_SECONDS_MAX):
        while True:
            with suppress(Unavailable):  # the database may be on its way back from the last blow
                rows = await scene.read_rows_now(parties)
                stored = {(row.plugin, row.external_id) for one in rows for row in one.messages}
                if set(scene.read_books().injected) <= stored:
                    return
            await trio.sleep(POLL_SECONDS)


@attrs.frozen(kw_only=True)
class Nudging:
    """One more mail into an owner's box."""

    boxes: Mapping[str, Mailbox]
    first: int
    ledger: Ledger

    async def __call__(self, party: Party, number: int) -> None:
        """Put it there."""
        await self.boxes[party.plugins[0].name].inject(self.first + number, self.ledger)


async def run_mail_storm(*, minutes: float, seed: int, say: Say) -> Outcome:
    """Make everything, let the storm pass, and leave nothing behind.

    ChaosError where there is no dovecot to be run, or no aiosmtpd.
    """
    missing = why_no_dovecot()
    if find_spec("aiosmtpd") is None:
        missing = "aiosmtpd is not installed (it comes with the extra `dev`)"
    if missing:
        raise ChaosError(missing)
    async with (
        running_dovecot(
            Dovecot, port=free_port(), tls_port=free_port(), password=PASSWORD
        ) as dovecot,
        open_scene(say) as scene,
    ):
        parties = await make_parties(scene.db, [[0]] * OWNERS, prefix="own")
        boxes = [
            Mailbox(
                user=party.name, plugin=party.plugins[0].name, port=dovecot.port,
                password=PASSWORD,
            )
            for party in parties
        ]  # fmt: skip
        storm = MailStorm(
            minutes=minutes, seed=seed, scene=scene, dovecot=dovecot, parties=parties, boxes=boxes
        )
        return await storm.run()


def judge_mails(verdict: Verdict, books: Books, rows: list[Rows]) -> None:
    """Every mail is exactly one message, and there is no other message."""
    stored = [(row.plugin, row.external_id) for one in rows for row in one.messages]
    verdict.posted_twice += [f"{key} is stored twice" for key in set(stored)
                             if stored.count(key) > 1]  # fmt: skip
    verdict.lost += [
        f"mail {books.injected[key]} of {key[0]} is no message"
        for key in set(books.injected) - set(stored)
    ]
    verdict.odd += [
        f"message {key} was no mail of ours" for key in set(stored) - set(books.injected)
    ]
    told = {name: times for name, times in verdict.figures.items() if times}
    verdict.figures = {"mails put into mailboxes": len(books.injected)} | told


def _read_journal(path: Path) -> dict[int, str]:
    if not path.exists():
        return {}
    db = sqlite3.connect(path)
    try:
        rows = db.execute("select draft_id, state, detail from drafts").fetchall()
    finally:
        db.close()
    return {
        draft_id: f"its plugin's journal: {state} {detail}".strip()
        for draft_id, state, detail in rows
    }
