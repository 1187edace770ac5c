"""One owner's verbs of every room at once, at random, with a clock that runs fast.

Each act is one transaction that nobody repeats, so that a deadlock is seen which `Database.run`
would hide; some are cancelled in the middle. What an act is refused is noted and is no trouble.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import attrs
import trio

from muster.agents import operations as agents
from muster.agents.rules import Accept, AddAgent
from muster.attention import operations as attention
from muster.chief import operations, words
from muster.chief.operations import asks, retry, unrouted
from muster.chief.tools import find_tool
from muster.chief.tools.tool import Call
from muster.chief.turns import By
from muster.drafts import operations as drafts
from muster.errors import MusterError, OutcomeUnknown, Unavailable
from muster.messages import operations as messages
from muster.messages import rules as message_rules
from muster.messages.rules import Complete, Fail, PutBack
from muster.pg.database import Transaction
from muster.principals import Agent, Muster, Owner, Plugin, Principal
from muster.push import operations as push
from muster.push.rules.deliveries import Answered, Unanswered
from muster.push.rules.devices import AddNtfy
from muster.tasks import operations as tasks
from muster.tasks.operations.notices import NewTask, PostNotice, post_notice
from tests.support.builders import make_agent, make_plugin
from tests.support.cluster import SpiedDatabase

TICK = timedelta(seconds=4)
KEYS = 4
SAYINGS = 3
CANCELLED_SHARE = 0.08
CANCEL_SECONDS_MAX = 0.02


@attrs.define(kw_only=True)
class VerbStorm:
    """Who takes part, and what was seen."""

    db: SpiedDatabase
    owner: Owner
    random: random.Random
    mail: Plugin
    tracker: Plugin
    chief: Agent
    helper: Agent
    done: Counter[str] = attrs.field(factory=Counter)
    refused: Counter[str] = attrs.field(factory=Counter)
    trouble: list[str] = attrs.field(factory=list)
    epochs: dict[int, int] = attrs.field(factory=dict)
    said: Counter[int] = attrs.field(factory=Counter)  # words begun, without those put back
    in_hand: list[Any] = attrs.field(factory=list)
    posted: int = 0

    @property
    def muster(self) -> Muster:
        """The principal of deliveries, sweeps and pushes."""
        return Muster(owner_id=self.owner.owner_id)

    async def run(self, seconds: float, workers: int) -> None:
        """Let so many work at once for so long."""
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for _ in range(workers):
                    nursery.start_soon(self._work)

    async def _work(self) -> None:
        acts: list[Callable[[VerbStorm], Awaitable[None]]] = [*ACTS]
        weights = [*ACTS.values()]
        while True:
            (act,) = self.random.choices(acts, weights)
            self.db.clock_offset += TICK
            await trio.lowlevel.checkpoint()
            # The end of the run comes between two acts; a cancel in one is the storm's own.
            with trio.CancelScope(shield=True) as scope:
                if self.random.random() < CANCELLED_SHARE:
                    limit = self.random.uniform(0, CANCEL_SECONDS_MAX)
                    scope.deadline = trio.current_time() + limit
                await act(self)

    async def act(
        self,
        principal: Principal,
        operation: Callable[[Transaction, Any], Awaitable[Any]],
        command: object,
    ) -> Any:
        """Run one operation once; its answer, or None when it was refused."""
        name = operation.__qualname__
        try:
            async with self.db.transaction(principal) as tx:
                answer = await operation(tx, command)
        except OutcomeUnknown:
            raise AssertionError(f"{name}: nothing was broken here") from None
        except Unavailable as trouble:
            self.trouble.append(f"{name}: {trouble} {trouble.__cause__}")
            return None
        except MusterError as refusal:
            self.refused[f"{name}: {refusal.code}"] += 1
            return None
        self.done[name] += 1
        return answer

    async def tool(self, agent: Agent, name: str, **arguments: object) -> None:
        """An agent calls a tool, as the gateway has it called."""
        tool = find_tool(name)
        assert tool is not None
        call = Call(arguments=tool.arguments(**arguments), deny_words=frozenset())
        if tool.reserve is not None:
            await self.act(agent, tool.reserve, call)
            if not self.random.randrange(8):
                return  # what was spent stays spent
        await self.act(agent, tool.run, call)


async def open_verb_storm(db: SpiedDatabase, owner: Owner, seed: int) -> VerbStorm:
    """An owner with two plugins, a chief and another agent, all connected."""
    storm = VerbStorm(
        db=db,
        owner=owner,
        random=random.Random(seed),
        mail=await make_plugin(db, owner, "agent-mail"),
        tracker=await make_plugin(db, owner, "tracker"),
        chief=await make_agent(db, owner, "chief", chief=True),
        helper=await make_agent(db, owner, "helper"),
    )
    for agent in (storm.chief, storm.helper):
        await _connect(storm, agent)
    return storm


async def _connect(storm: VerbStorm, agent: Agent) -> None:
    epoch = await storm.act(
        storm.muster, agents.accept_gateway, Accept(agent_id=agent.agent_id, node="one")
    )
    if epoch is not None:
        storm.epochs[agent.agent_id] = epoch


async def connect(storm: VerbStorm) -> None:
    """An agent comes back: what it had in hand is nobody's any more."""
    await _connect(storm, storm.random.choice((storm.chief, storm.helper)))


async def move_chief(storm: VerbStorm) -> None:
    """Another agent becomes the chief."""
    name = f"chief-{storm.random.randrange(1_000_000)}"
    command = AddAgent(name=name, chief=True, replace=True)
    made = await storm.act(storm.owner, agents.add_agent, command)
    if made is not None:
        storm.chief = attrs.evolve(storm.chief, agent_id=made[0].id, name=name)
        await _connect(storm, storm.chief)


async def post_message(storm: VerbStorm) -> None:
    """A message of one of the plugins."""
    storm.posted += 1
    plugin = storm.random.choice((storm.mail, storm.tracker))
    post = messages.Post(external_id=f"m-{storm.posted}", body="Does noon work?")
    await storm.act(plugin, messages.post, post)


async def hand_over(storm: VerbStorm) -> None:
    """A delivery takes a message in hand; two may try at once, as two servers would."""
    agent_id = storm.chief.agent_id
    epoch = storm.epochs.get(agent_id, 0)
    command = operations.Begin(agent_id=agent_id, epoch=epoch)
    handover = await storm.act(storm.muster, operations.begin, command)
    if handover is not None:
        storm.in_hand.append(handover)


async def hand_words_over(storm: VerbStorm) -> None:
    """A delivery takes words in hand."""
    agent = storm.random.choice((storm.chief, storm.helper))
    epoch = storm.epochs.get(agent.agent_id, 0)
    command = words.BeginWords(agent_id=agent.agent_id, epoch=epoch)
    spoken = await storm.act(storm.muster, words.begin_words, command)
    if spoken is not None:
        storm.said[spoken.turn.id] += 1
        storm.in_hand.append(spoken)


async def end_turn(storm: VerbStorm) -> None:
    """A turn ends, or its server is killed in the middle of it."""
    if not storm.in_hand:
        return
    held = storm.in_hand.pop(storm.random.randrange(len(storm.in_hand)))
    how = storm.random.choice(("killed", "fail", "put back", "complete", "complete", "complete"))
    if how == "killed":
        return
    if isinstance(held, words.Spoken):
        spoken = {"fail": Fail, "put back": PutBack}.get(how, Complete)(epoch=held.epoch)
        if isinstance(spoken, PutBack):
            storm.said[held.turn.id] -= 1
        command = words.SettleWords(turn_id=held.turn.id, ending=spoken)
        await storm.act(storm.muster, words.settle_words, command)
        return
    kinds = {"fail": message_rules.Fail, "put back": message_rules.PutBack}
    settle = operations.Settle(
        message_id=held.message.id,
        attempt=held.message.attempts,
        turn_id=held.turn_id,
        conversation_id=held.conversation_id,
        ending=kinds.get(how, message_rules.Complete)(epoch=held.epoch),
    )
    await storm.act(storm.muster, operations.settle_turn, settle)


async def say(storm: VerbStorm) -> None:
    """The owner writes to an agent."""
    agent = storm.random.choice((storm.chief, storm.helper))
    command = words.Say(agent_id=agent.agent_id, text="Yes, do so.", by=By.OWNER)
    await storm.act(storm.owner, words.say, command)


async def ask_owner(storm: VerbStorm) -> None:
    """An agent asks its owner."""
    agent = storm.random.choice((storm.chief, storm.helper))
    about = await _message(storm) if storm.random.randrange(2) else None
    await storm.tool(agent, "attention_ask", question="Noon?", answers=("Yes",), message_id=about)


async def _ask(storm: VerbStorm) -> int:
    found = await storm.act(storm.owner, attention.list_asks, attention.ListAsks(limit=20))
    return storm.random.choice(found).id if found else 1


async def _message(storm: VerbStorm) -> int:
    command = messages.ListMessages(limit=20)
    found = await storm.act(storm.owner, messages.list_messages, command)
    return storm.random.choice(found).id if found else 1


async def answer(storm: VerbStorm) -> None:
    """The owner answers an ask, or takes it away."""
    ask_id = await _ask(storm)
    if storm.random.randrange(4):
        command = asks.AnswerAsk(ask_id=ask_id, text="Yes")
        await storm.act(storm.owner, asks.answer_ask, command)
    else:
        await storm.act(storm.owner, attention.dismiss, attention.Dismiss(ask_id=ask_id))


async def withdraw_ask(storm: VerbStorm) -> None:
    """An agent needs no answer any more."""
    await storm.tool(storm.helper, "attention_cancel", ask_id=await _ask(storm))


async def sweep(storm: VerbStorm) -> None:
    """The rounds of the sweeps."""
    command = unrouted.AskAboutUnrouted()
    await storm.act(storm.muster, unrouted.ask_about_unrouted, command)
    expire = attention.Expire(ask_id=await _ask(storm))
    await storm.act(storm.muster, attention.expire, expire)


async def settle_message(storm: VerbStorm) -> None:
    """The chief says why a message needs nothing more."""
    message_id = await _message(storm)
    await storm.tool(storm.chief, "plugin_message_settle", message_id=message_id, reason="a notice")


async def retry_message(storm: VerbStorm) -> None:
    """The owner has a message handed over again."""
    command = retry.RetryMessage(message_id=await _message(storm))
    await storm.act(storm.owner, retry.retry_message, command)


async def gate_task(storm: VerbStorm) -> None:
    """The chief files a task that waits."""
    about = await _message(storm) if storm.random.randrange(2) else None
    await storm.tool(
        storm.chief, "task_create_gated", title="Water", body="It is dry.", message_id=about
    )


async def draft(storm: VerbStorm) -> None:
    """The chief drafts a reply."""
    message_id = await _message(storm)
    await storm.tool(storm.chief, "reply_draft", message_id=message_id, body="Noon works.")


async def _draft(storm: VerbStorm) -> int:
    found = await storm.act(storm.owner, drafts.list_drafts, drafts.ListDrafts(limit=20))
    return storm.random.choice(found).id if found else 1


async def decide(storm: VerbStorm) -> None:
    """The owner decides about a draft."""
    draft_id = await _draft(storm)
    if storm.random.randrange(3):
        await storm.act(storm.owner, drafts.approve, drafts.Approve(draft_id=draft_id))
    else:
        await storm.act(storm.owner, drafts.reject, drafts.Reject(draft_id=draft_id))


async def collect(storm: VerbStorm) -> None:
    """A plugin collects a reply and says what came of it."""
    plugin = storm.random.choice((storm.mail, storm.tracker))
    claimed = await storm.act(plugin, drafts.claim_next, drafts.ClaimNext())
    if claimed is not None and storm.random.randrange(4):
        report = drafts.Report(draft_id=claimed.draft_id, ok=bool(storm.random.randrange(2)))
        await storm.act(plugin, drafts.report, report)


async def notice(storm: VerbStorm) -> None:
    """A plugin tells of a record of its upstream."""
    plugin = storm.random.choice((storm.mail, storm.tracker))
    command = PostNotice(
        key=f"tracker:{storm.random.randrange(KEYS)}",
        create=NewTask(title="Rotate the key", body="It is old."),
        comment=f"said {storm.random.randrange(SAYINGS)}",
        namespaces=frozenset({"tracker"}),
    )
    await storm.act(plugin, post_notice, command)


async def work_on_tasks(storm: VerbStorm) -> None:
    """The owner closes, gates, merges and comments; what is closed is not opened again."""
    board = await storm.act(storm.owner, tasks.list_tasks, tasks.ListTasks(limit=12))
    if not board:
        return
    one, two = storm.random.choice(board).id, storm.random.choice(board).id
    closed = tasks.Edit(status=tasks.Status.COMPLETE)
    verbs: list[tuple[Callable[[Transaction, Any], Awaitable[Any]], object]] = [
        (tasks.edit_task, tasks.EditTask(task_id=one, edit=closed)),
        (tasks.edit_task, tasks.EditTask(task_id=one, edit=tasks.Edit(add_tags=("gate:x",)))),
        (tasks.ungate_task, tasks.UngateTask(task_id=one)),
        (tasks.merge_task, tasks.MergeTask(task_id=one, into=two)),
        (tasks.add_comment, tasks.AddComment(task_id=one, body="so")),
    ]
    verb, command = storm.random.choice(verbs)
    await storm.act(storm.owner, verb, command)


async def change_devices(storm: VerbStorm) -> None:
    """The owner adds a device, tests one or removes one."""
    notified = await storm.act(storm.owner, push.get_notified, None)
    kind = storm.random.randrange(4)
    if kind < 2 or notified is None or not notified.devices:
        topic = f"topic-{storm.random.randrange(4)}"
        command = AddNtfy(name="Phone", url="https://ntfy.example.test", topic=topic, token="")
        await storm.act(storm.owner, push.add_ntfy, command)
        return
    device_id = storm.random.choice(notified.devices).id
    verb = push.test_device if kind == 2 else push.remove_device
    await storm.act(storm.owner, verb, device_id)


async def push_all(storm: VerbStorm) -> None:
    """A sender takes what is due; it is answered or not, or the device is gone."""
    planned = await storm.act(storm.muster, push.plan, push.Plan())
    for due in planned.due if planned is not None else ():
        command = push.TakeNext(device_id=due.device_id)
        taken = await storm.act(storm.muster, push.take_next, command)
        if not isinstance(taken, push.Taken):
            continue
        status = storm.random.choice((200, 200, 500, 410, 0))
        answered = Answered(status=status) if status else Unanswered(reason="nobody there")
        settle = push.SettlePush(taken=taken, answer=answered, chance=storm.random.random())
        await storm.act(storm.muster, push.settle, settle)


ACTS: dict[Callable[[VerbStorm], Awaitable[None]], float] = {
    connect: 2,
    move_chief: 0.3,
    post_message: 8,
    hand_over: 12,
    hand_words_over: 12,
    end_turn: 20,
    say: 5,
    ask_owner: 8,
    answer: 8,
    withdraw_ask: 2,
    sweep: 6,
    settle_message: 3,
    retry_message: 6,
    gate_task: 6,
    draft: 6,
    decide: 6,
    collect: 6,
    notice: 6,
    work_on_tasks: 8,
    change_devices: 3,
    push_all: 6,
}
