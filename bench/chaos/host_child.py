"""Mirror hosts in a process that dies: they type what they are handed, which is a line of a ledger.

Each host shows sessions that work, wait and fall idle. Handed a text, it turns it away while the
session is not idle, now and then at will, else it types it: the SENT line is the typing. It says
so until muster has acknowledged it, over connections and lives; now and then it has no proof at
first, and one later. A life that finds a text begun and not typed cannot tell, and says that.

What happens to a text is written down before and after each step, and at each the process may end.
"""

import random
import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import attrs
import trio

from bench.agent import FrameSocket
from bench.chaos.ledger import Ledger, Line, What, read
from bench.chaos.mortal import Mortal, begin_life
from bench.chaos.orders import Orders, PluginOrder, read_orders
from bench.mirror_hosts import PATH, window_frame
from muster.clients.stopping import until_stopped

AGAIN_SECONDS = 0.3
CHANGE_SECONDS = (0.2, 2.0)
IDLE_FOR = timedelta(minutes=10)
IDLES = 0.7  # of the changes
TURNS_AWAY = 0.05
UNPROVEN = 0.1
LATE_SECONDS = 1.0
_GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


def sessions_of(order: PluginOrder) -> list[str]:
    """The Claude ids of a host's sessions; they are the same in each life."""
    return [str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{order.name}-{n}")) for n in range(order.count)]


@attrs.define(eq=False)
class ChaosHost:
    """One host; `untold` is what muster has not acknowledged of the texts that it was handed."""

    order: PluginOrder
    port: int
    ledger: Ledger
    mortal: Mortal
    chance: random.Random
    untold: dict[int, str] = attrs.field(factory=dict)
    typed: Counter[int] = attrs.field(factory=Counter)
    _states: dict[str, str] = attrs.field(factory=dict)
    _told: dict[int, tuple[int, str]] = attrs.field(factory=dict)
    _seq: int = 0
    _writing: trio.Lock = attrs.field(factory=trio.Lock)

    def remember(self, earlier: Iterable[Line]) -> None:
        """Take up what the lives before this one did."""
        begun: set[int] = set()
        for line in earlier:
            match line.what:
                case What.SENDING:
                    begun.add(line.id)
                    self.untold[line.id] = "unconfirmed"
                case What.SENT:
                    self.typed[line.id] += 1
                    self.untold[line.id] = "pasted"
                case What.RESULT if self.untold.get(line.id) == line.detail:
                    del self.untold[line.id]
                case _:
                    pass

    async def run(self) -> None:
        """Be connected, again and again."""
        while True:
            try:
                async with FrameSocket.open(self.port, self.order.token, PATH) as socket:
                    await self._serve(socket)
            except* _GONE:
                pass
            await trio.sleep(AGAIN_SECONDS)

    async def _serve(self, socket: FrameSocket) -> None:
        self._told.clear()
        now = datetime.now(UTC).isoformat()
        who = {"host": "chaos", "interactive": True, "resume_spawn": False}
        await self._say(socket, "hello", now=now, **who)
        async with trio.open_nursery() as nursery:
            while True:
                frame = await socket.receive()
                match frame["type"]:
                    case "welcome":
                        nursery.start_soon(self._live, socket)
                    case "ping":
                        async with self._writing:
                            await socket.send(type="pong")
                    case "ack":
                        self._acknowledged(frame["seq"])
                    case "paste":
                        nursery.start_soon(self._paste, socket, frame)

    async def _live(self, socket: FrameSocket) -> None:
        """Say what is untold, and let the sessions work, wait and fall idle."""
        for send_id, outcome in list(self.untold.items()):
            await self._tell(socket, send_id, outcome)
        while True:
            for session in sessions_of(self.order):
                idle = self.chance.random() < IDLES
                busy = self.chance.choice(("working", "waiting"))
                self._states[session] = "idle" if idle else busy
            await self._list(socket)
            await trio.sleep(self.chance.uniform(*CHANGE_SECONDS))

    async def _list(self, socket: FrameSocket) -> None:
        now = datetime.now(UTC)
        windows = []
        for place, session in enumerate(sessions_of(self.order)):
            since = (now - IDLE_FOR).isoformat() if self._states[session] == "idle" else None
            window = window_frame(place, session, idle_since=since)
            if since is None:
                window["panes"] = [{**window["panes"][0], "state": self._states[session]}]  # type: ignore[index]
            windows.append(window)
        await self._say(socket, "windows", now=now.isoformat(), windows=windows)

    async def _paste(self, socket: FrameSocket, frame: dict[str, object]) -> None:
        send_id, session = frame["send_id"], frame["claude_session"]
        assert isinstance(send_id, int)
        assert isinstance(session, str)
        self.ledger.write(What.CLAIMED, self.order.name, id=send_id)
        self.mortal.reach("offered")
        if self.typed[send_id]:
            self.ledger.write(What.ODD, self.order.name, id=send_id, detail="handed out again")
        if self._states.get(session) != "idle" or self.chance.random() < TURNS_AWAY:
            self.ledger.write(What.FAILED, self.order.name, id=send_id)
            await self._tell(socket, send_id, "not_begun")
            return
        self.untold[send_id] = "unconfirmed"
        self.ledger.write(What.SENDING, self.order.name, id=send_id)
        self.mortal.reach("typing")
        self.ledger.write(What.SENT, self.order.name, id=send_id)
        self.typed[send_id] += 1
        self.mortal.reach("typed")
        if self.chance.random() < UNPROVEN:
            await self._tell(socket, send_id, "unconfirmed")
            await trio.sleep(LATE_SECONDS)
        self.untold[send_id] = "pasted"
        await self._tell(socket, send_id, "pasted")
        self.mortal.reach("told")

    async def _tell(self, socket: FrameSocket, send_id: int, outcome: str) -> None:
        self._told[self._seq + 1] = (send_id, outcome)
        await self._say(socket, "paste.done", send_id=send_id, outcome=outcome, detail="chaos")

    def _acknowledged(self, seq: object) -> None:
        assert isinstance(seq, int)
        if (told := self._told.pop(seq, None)) is None:
            return
        send_id, outcome = told
        self.ledger.write(What.RESULT, self.order.name, id=send_id, detail=outcome)
        if self.untold.get(send_id) == outcome:
            del self.untold[send_id]

    async def _say(self, socket: FrameSocket, kind: str, **members: object) -> None:
        self._seq += 1
        seq = self._seq
        async with self._writing:
            await socket.send(type=kind, seq=seq, **members)


async def run(orders: Orders) -> None:
    """Be all hosts of the orders until the process is ended."""
    earlier = list(read(orders.ledger))
    with Ledger(orders.ledger) as ledger:
        mortal = begin_life(ledger, orders, earlier)
        async with trio.open_nursery() as nursery:
            for order in orders.plugins:
                host = ChaosHost(
                    order=order, port=orders.port, ledger=ledger, mortal=mortal,
                    chance=random.Random(f"{order.name} {orders.seed} {len(earlier)}"),
                )  # fmt: skip
                host.remember(line for line in earlier if line.by == order.name)
                nursery.start_soon(host.run)


if __name__ == "__main__":
    trio.run(until_stopped, lambda: run(read_orders()))
