"""A storm over a real muster, from an empty folder to the verdict."""

import random
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

import attrs
import trio

from bench.chaos.cast import make_agents, make_clients
from bench.chaos.forms import Form
from bench.chaos.ledger import What
from bench.chaos.nemeses import Blow, Nemeses, Plan
from bench.chaos.outage import Outages, measure_outages
from bench.chaos.parties import MESSAGES_PER_PLUGIN, Party, Registered, make_parties, share
from bench.chaos.scene import Say, Scene, open_scene, read_turns
from bench.chaos.texts import make_message
from bench.chaos.tricklers import trickle
from bench.chaos.verdict import Verdict, judge
from muster.clients.plugin import PluginClient

POSTS_SECONDS_MAX = 600.0
QUIET_SECONDS = 4.0
QUIET_SECONDS_MAX = 120.0
PLUGINS_SHARED = 5  # of one owner


@attrs.frozen(kw_only=True)
class Outcome:
    """Everything that a storm has to tell."""

    verdict: Verdict
    outages: Outages
    blows: list[Blow]
    deaths: Counter[str]
    seconds: float
    trickled: Counter[str] = attrs.field(factory=Counter)


@attrs.define(kw_only=True)
class Storm:
    """One storm and its cast; what `shared` plugins post, the producers post at once."""

    form: Form
    scene: Scene
    own: list[Party]
    shared: list[Party]
    trickled: Counter[str] = attrs.field(factory=Counter)

    @property
    def parties(self) -> list[Party]:
        """All owners."""
        return [*self.own, *self.shared]

    async def run(self) -> Outcome:
        """Let everybody work while the nemeses do, wait until it is calm, and judge."""
        began = time.monotonic()
        form, scene = self.form, self.scene
        agents = make_agents(scene.folder, scene.server.url, self.parties)
        clients = make_clients(
            form, scene.folder, scene.server.port,
            own=_plugins(self.own), shared=_plugins(self.shared),
        )  # fmt: skip
        nemeses = Nemeses(
            plan=Plan(kills=form.kills, stop_seconds=form.stop_seconds, minutes=form.minutes),
            random=random.Random(f"nemeses {form.seed}"), server=scene.server,
            cluster=scene.cluster, clients=[*agents, *clients], say=scene.say,
        )  # fmt: skip
        try:
            async with trio.open_nursery() as nursery:
                for child in (*agents, *clients):
                    nursery.start_soon(scene.keeper.keep, child)
                owners = random.Random(f"owners {form.seed}")
                nursery.start_soon(scene.approve, self.parties, owners)
                async with trio.open_nursery() as trickling:
                    self._trickle(trickling)
                    await nemeses.run()
                    trickling.cancel_scope.cancel()
                scene.say("the nemeses are done; everything calms down")
                await self._until_posted()
                calm_at = time.monotonic()
                await scene.until_nothing_waits(self.parties, self._post_last)
                await self._until_quiet()
                await scene.keeper.close()
                nursery.cancel_scope.cancel()
        finally:
            await scene.keeper.kill_all()
        books = scene.read_books()
        verdict = judge(books, await scene.read_rows(self.parties), read_turns(agents))
        verdict.odd += scene.keeper.faults + await scene.stop_server()
        verdict.figures["starts of the server that were cut short"] = len(nemeses.failed_starts)
        return Outcome(
            verdict=verdict,
            outages=measure_outages(books.successes, nemeses.blows, ended=calm_at),
            blows=nemeses.blows,
            deaths=books.deaths,
            trickled=self.trickled,
            seconds=time.monotonic() - began,
        )

    def _trickle(self, nursery: trio.Nursery) -> None:
        for number in range(self.form.tricklers):
            token = self.own[0].plugins[0].token
            chance = random.Random(f"trickler {number} {self.form.seed}")
            port = self.scene.server.port
            nursery.start_soon(partial(trickle, port, token, chance, seen=self.trickled))

    async def _until_posted(self) -> None:
        """Wait for every planned post; what is missing after the deadline is for the verdict."""
        wanted = sum(one.messages for one in _plugins(self.parties))
        with trio.move_on_after(POSTS_SECONDS_MAX):
            while len((await self.scene.look()).posted) < wanted:
                pass

    async def _post_last(self, party: Party, number: int) -> None:
        plugin = party.plugins[number % len(party.plugins)]
        external_id = f"{plugin.name}-last-{number}"
        ledger = self.scene.ledger
        async with PluginClient(self.scene.server.url, plugin.token) as client:
            ledger.write(What.INTENT, plugin.name, external_id=external_id)
            posted = await client.post(make_message(external_id))
        ledger.write(What.POSTED, plugin.name, external_id=external_id, id=posted.id)

    async def _until_quiet(self) -> None:
        """Wait until every result that will be reported is."""
        before, since = -1, time.monotonic()
        with trio.move_on_after(QUIET_SECONDS_MAX):
            while time.monotonic() - since < QUIET_SECONDS:
                recorded = len((await self.scene.look()).recorded)
                if recorded != before:
                    before, since = recorded, time.monotonic()


async def run_storm(form: Form, say: Say) -> Outcome:
    """Make everything, let the storm pass, and leave nothing behind."""
    async with open_scene(say) as scene:
        own = await make_parties(scene.db, share(form.messages, form.owners), prefix="own")
        plugins = [MESSAGES_PER_PLUGIN] * (form.shared // MESSAGES_PER_PLUGIN)
        counts = [
            plugins[start : start + PLUGINS_SHARED]
            for start in range(0, len(plugins), PLUGINS_SHARED)
        ]
        shared = await make_parties(scene.db, counts, prefix="shared")
        return await Storm(form=form, scene=scene, own=own, shared=shared).run()


def _plugins(parties: Iterable[Party]) -> list[Registered]:
    return [plugin for party in parties for plugin in party.plugins]
