"""The processes on the other side of the wire: chiefs, plugins, and the producers."""

import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from bench.chaos.children import Child, environment, muster
from bench.chaos.forms import Form
from bench.chaos.orders import Orders, PluginOrder
from bench.chaos.parties import Party, Registered, deal
from bench.chaos.texts import RULES


def make_agents(folder: Path, url: str, parties: Iterable[Party]) -> list[Child]:
    """An agent for each owner, not started yet."""
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    return [
        make_agent(
            folder, rules, name=f"agent-{party.name}", url=url, token=party.agent_token,
            environ=environment({}),
        )
        for party in parties
    ]  # fmt: skip


def make_agent(
    folder: Path, rules: Path, *, name: str, url: str, token: str, environ: Mapping[str, str]
) -> Child:
    """`muster agent run --backend script` with these rules, not started yet."""
    return Child(
        command=muster(
            *("agent", "run", "--backend", "script", "--script", str(rules)),
            *("--url", url, "--json"),
        ),
        # One that is killed leaves its temporary folder behind: it goes with ours.
        environ={**environ, "MUSTER_AGENT_TOKEN": token, "TMPDIR": str(folder)},
        folder=folder,
        name=name,
    )


def make_clients(
    form: Form,
    folder: Path,
    port: int,
    *,
    own: Sequence[Registered],
    shared: Sequence[Registered],
) -> list[Child]:
    """Plugins on the SDK, plugins on bare sockets, and the producers of what is `shared`."""
    chance = random.Random(form.seed)
    hands = deal(own, form.sdk_processes + form.raw_processes, chance)
    sdk, raw = hands[: form.sdk_processes], hands[form.sdk_processes :]
    # What the producers post is claimed by plugins that post nothing themselves.
    collected = deal([attrs.evolve(one, messages=0) for one in shared], len(raw), chance)
    given: list[tuple[str, str, Sequence[Registered]]] = [
        *(("sdk_child", f"sdk{number}", hand) for number, hand in enumerate(sdk)),
        *(
            ("raw_child", f"raw{number}", [*hand, *more])
            for number, (hand, more) in enumerate(zip(raw, collected, strict=True))
        ),
        ("raw_child", "producers", shared),
    ]
    children = []
    for module, name, plugins in given:
        orders = Orders(
            name=name,
            port=port,
            seed=form.seed,
            folder=str(folder),
            plugins=[
                PluginOrder(name=one.name, token=one.token, count=one.messages) for one in plugins
            ],
            active=form.active,
            every_seconds=form.every_seconds,
            deadly=form.deadly,
            producers=form.producers if name == "producers" else 0,
        )
        orders.write()
        children.append(client(module, orders))
    return children


def client(module: str, orders: Orders) -> Child:
    """A process of bench/chaos with its orders, which are written already."""
    return Child(
        command=[sys.executable, "-m", f"bench.chaos.{module}", str(orders.path)],
        environ=environment({}),
        folder=Path(orders.folder),
        name=orders.name,
    )
