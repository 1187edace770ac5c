"""Messages on their whole way through real machines: posted, routed, pasted, answered, sent."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from muster.mirror.operations.sessions import find_session
from muster.principals import Owner
from tests.mirror.test_whole_machines import until_known
from tests.support.agent_mail import GATE, MailDesk, mail_desk, review
from tests.support.builders import new_agent
from tests.support.claude_pane import ClaudePane
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mcp_bridge import started
from tests.support.mirror_host import new_host
from tests.support.mirror_machine import Machine, open_machine
from tests.support.server import ScriptedAgent, call_tool
from tests.support.waiting import until

ALLOWED = "ada/helper"


@attrs.frozen(kw_only=True)
class House:
    """A machine with sessions, a connected chief, and the plugin agent-mail."""

    desk: MailDesk
    machine: Machine
    chief: ScriptedAgent
    chief_token: str
    plugin_token: str
    personal_token: str

    async def post(self, external_id: str, **fields: object) -> int:
        """A message comes in by the plugin's door; its id."""
        body = {"external_id": external_id, "body": "Does noon work?", **fields}
        return int((await self.send("messages", body))["id"])

    async def send(self, path: str, body: object) -> Any:
        """Post to the plugin's door; the answer."""
        async with self.desk.server.client(self.plugin_token) as client:
            answer = await client.post(f"/plugin/v1/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def hook(self, path: str, **body: object) -> None:
        """What a hook of the owner's reports."""
        async with self.desk.server.client(self.personal_token) as client:
            answer = await client.post(f"/api/{path}", json=body)
        assert answer.is_success, answer.text

    async def turn(self, seconds: float = 10.0) -> str:
        """The chief's next turn, which it ends at once; its text."""
        turn = await self.chief.next_frame("turn", seconds)
        await self.chief.send("turn.started", turn_id=turn["turn_id"])
        await self.chief.send("turn.done", turn_id=turn["turn_id"], text="Done.")
        return str(turn["text"])

    async def hand_to(self, claude: ClaudePane, message_id: int) -> int:
        """The chief has the message, and routes it; the route's id."""
        assert f"[message_id {message_id}]" in await self.turn()
        told = await call_tool(
            self.desk.server,
            self.chief_token,
            "route_to_session",
            message_id=message_id,
            subject=f"mirror:{claude.session_id}",
        )
        assert "isError" not in told or not told["isError"], told
        return int(told["structuredContent"]["route_id"])

    async def pasted(self, claude: ClaudePane) -> str:
        """The first prompt of the session."""
        return str((await claude.until("submitted", seconds=20))["text"])

    async def call(self, claude: ClaudePane, name: str, **arguments: object) -> tuple[str, bool]:
        """The session calls one of its tools, by the program that Claude Code starts for it."""
        url, token = self.desk.server.url, self.machine.token_file.read_text()
        environ = {"TMUX_PANE": claude.pane, "MUSTER_MIRROR_TOKEN": token}
        async with started("--url", url, **environ) as bridge:
            await bridge.ask("initialize", protocolVersion="2025-06-18")
            return await bridge.call(name, **arguments)

    async def reply(self, route_id: int, text: str) -> str:
        """A program of the owner's answers a route by command line; what it says."""
        environ = {"PATH": os.environ["PATH"], "MUSTER_API_TOKEN": self.personal_token}
        done = await trio.run_process(
            [
                sys.executable, "-m", "muster", "route", "reply", str(route_id),
                "--body-file", "-", "--url", self.desk.server.url, "--json",
            ],
            stdin=text.encode(), env=environ, capture_stdout=True,
        )  # fmt: skip
        return done.stdout.decode()

    async def route_state(self, number: int = -1) -> str:
        """The state of a route."""
        routes = await self.desk.routes()
        return routes[number].state if routes else "none"


@asynccontextmanager
async def open_house(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, folder: Path, *more: str
) -> AsyncIterator[House]:
    """A house with one machine."""
    settings = {
        "MUSTER_SEND_QUEUE_IDLE": "1s",
        "MUSTER_MAIL_RESUME_ALLOW": f"{owner.owner_id}:agent-mail:{GATE}",
        "MUSTER_ROUTE_RELAY_ALLOW": f"{owner.owner_id}:agent-mail:{ALLOWED}",
    }
    _, token = await new_host(db, owner)
    _, chief_token = await new_agent(db, owner)
    _, personal = await db.run(owner, add_personal, AddPersonal(name="hooks", scope=Scope.WRITE))
    arguments = ("--interactive", *more)
    async with (
        mail_desk(db, owner, cluster, **settings) as desk,
        open_machine(folder, url=desk.server.url, token=token, arguments=arguments) as machine,
        ScriptedAgent(desk.server.url, chief_token) as chief,
    ):
        await chief.next_frame("welcome")
        yield House(
            desk=desk,
            machine=machine,
            chief=chief,
            chief_token=chief_token,
            plugin_token=await desk.new_token(),
            personal_token=personal,
        )


@pytest.fixture
async def house(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[House]:
    """A house whose machine starts no sessions."""
    async with open_house(db, owner, cluster, tmp_path / "box") as opened:
        yield opened


@pytest.mark.rule(308, 313, 318, 325)
async def test_a_message_is_routed_answered_approved_and_sent(house: House) -> None:
    """By the chief's tool, into a pane, by the session's own tool, and by the plugin's claim."""
    claude = await house.machine.tmux.claude()
    await until_known(house.desk.server, house.desk.owner, claude)
    message_id = await house.post("m1", sender="bob/helper", sender_verified=True)
    route_id = await house.hand_to(claude, message_id)
    block = await house.pasted(claude)
    assert "| Does noon work?" in block.splitlines()
    assert f"Route id: {route_id}." in block
    told, is_no = await house.call(claude, "route_reply", route_id=route_id, body="Noon works.")
    assert (is_no, '"state":"fallback"' in told) == (False, True)
    drafts, _ = await house.call(claude, "plugin_drafts_list")
    (draft,) = json.loads(drafts)["drafts"]
    assert (draft["reply"], draft["route_id"]) == ("Noon works.", route_id)
    _, is_no = await house.call(
        claude, "plugin_draft_decide", id=draft["id"], decision="approve",
        body_sha256=draft["body_sha256"],
    )  # fmt: skip
    assert not is_no
    claimed = await house.send("drafts/claim", {"wait_seconds": 5})
    assert claimed["body"] == "Noon works."
    await house.send(f"drafts/{claimed['draft_id']}/result", {"ok": True, "external_ref": "sent"})


@pytest.mark.rule(320, 324)
async def test_an_allowed_sender_is_answered_by_command_line(house: House) -> None:
    """`muster route reply` from the pane, relayed unasked and claimed."""
    claude = await house.machine.tmux.claude()
    await until_known(house.desk.server, house.desk.owner, claude)
    message_id = await house.post("m1", sender=ALLOWED, sender_verified=True)
    route_id = await house.hand_to(claude, message_id)
    await house.pasted(claude)
    assert '"state": "relayed"' in await house.reply(route_id, "Noon works.\n")
    claimed = await house.send("drafts/claim", {"wait_seconds": 5})
    assert claimed["body"] == "Noon works."


@pytest.mark.rule(333, 334)
async def test_a_route_without_an_answer_comes_back_once(house: House) -> None:
    """At its deadline, in a turn of the chief's."""
    claude = await house.machine.tmux.claude()
    await until_known(house.desk.server, house.desk.owner, claude)
    route_id = await house.hand_to(claude, await house.post("m1"))
    await house.pasted(claude)
    await house.desk.shift(timedelta(minutes=31))
    house.desk.server.node.tree.address("root/sweeps/routes").tell("round", key="round")
    assert f"route {route_id} " in await house.turn()
    assert await house.route_state() == "timed_out"
    house.desk.server.node.tree.address("root/sweeps/routes").tell("round", key="round")
    await house.post("m2")
    assert "[message_id" in await house.turn(), "nothing more of that route"


@pytest.mark.rule(349, 357, 361)
async def test_threads_and_reviews_go_to_their_sessions(house: House) -> None:
    """By what hooks reported; the chief has a turn of neither, and another machine's none."""
    first, second = [await house.machine.tmux.claude() for _ in range(2)]
    for claude in (first, second):
        await until_known(house.desk.server, house.desk.owner, claude)
    await house.hook("plugin-threads", thread="t-1", claude_session=first.session_id)
    await house.hook(
        "pr-sessions", repo="example/garden", pr=12, kind="gh-pr-create",
        claude_session=second.session_id,
    )  # fmt: skip
    await house.post("m1", thread="t-1", sender="bob/helper", body="The roses are red.")
    await house.post("m2", sender=GATE, sender_verified=True, body=review())
    assert "| The roses are red." in await house.pasted(first)
    assert "| Please look at the roses." in await house.pasted(second)
    assert [route.routed_by for route in await house.desk.routes()] == ["muster"] * 2


@pytest.mark.rule(323)
async def test_a_session_asks_the_chief_before_it_answers(house: House) -> None:
    """The chief's turn has the question and the message; its words come back to the session."""
    claude = await house.machine.tmux.claude()
    await until_known(house.desk.server, house.desk.owner, claude)
    route_id = await house.hand_to(claude, await house.post("m1"))
    await house.pasted(claude)
    asked, _ = await house.call(claude, "chief_ask", question="Which room?", route_id=route_id)
    ask_id = json.loads(asked)["ask_id"]
    text = await house.turn()
    assert "> Which room?" in text
    assert "| Does noon work?" in text
    answer, is_no = await house.call(claude, "attention_wait", ids=[ask_id], wait_seconds=5)
    assert not is_no
    assert '"answer":"Done."' in answer


@pytest.mark.rule(384, 385, 389)
async def test_an_ended_session_is_resumed_and_gets_its_mail(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, tmp_path: Path
) -> None:
    """Its host starts it in a window of its own, and the message is pasted there."""
    program = tmp_path / "box" / "claude"
    more = ("--resume-spawn", "--resume-claude", str(program))
    async with open_house(db, owner, cluster, tmp_path / "box", *more) as house:
        claude = await house.machine.tmux.claude()
        await until_known(house.desk.server, owner, claude)
        await house.hook("plugin-threads", thread="t-1", claude_session=claude.session_id)
        claude.tell(do="prompt", text="begin")
        await claude.until("submitted", text="begin")
        claude.tell(do="stop")
        await claude.until("state", to="idle", count=2)
        claude.tell(do="end")
        await claude.gone()

        async def is_gone() -> bool:
            async with house.desk.server.node.db.transaction(owner) as tx:
                found = await find_session(tx, claude.session_id)
            return found is not None and not found.shown

        await until(is_gone, 20)
        await house.post(
            "m1", thread="t-1", sender=GATE, sender_verified=True, body="The roses are red."
        )
        pasted = await claude.until("submitted", count=2, seconds=40)
        assert "| The roses are red." in pasted["text"]
        assert (await house.desk.until_resume("routed")).claude_session == claude.session_id
