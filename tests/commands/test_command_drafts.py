"""Messages and drafts by the real program: what is shown, and the owner's word."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import attrs
import pytest
import trio

from muster.drafts.operations import ClaimNext, Report, claim_next, report
from muster.messages.operations import Post, post
from muster.messages.rules import Fail
from muster.pg.database import Database, open_database
from muster.principals import Agent, Owner, Plugin
from muster.token_use import TokenUse
from tests.support.builders import (
    begin,
    get_message,
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    move_message,
)
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import Program, program_on

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold]Ada[/bold]\u202e"
LEASE_IS_OVER = timedelta(minutes=3)
REPLY = "Thanks, noon works.\nSee you thére."


@attrs.frozen(kw_only=True)
class Desk:
    """An owner's desk with one queued message, one delivered, and a draft that answers it."""

    program: Program
    app_url: str
    owner: Owner
    plugin: Plugin
    chief: Agent
    queued_id: int
    message_id: int
    draft_id: int

    def claim(self) -> int | None:
        """Let the plugin collect an approved reply."""

        async def claim(db: Database) -> int | None:
            claimed = await db.run(self.plugin, claim_next, ClaimNext())
            return claimed.draft_id if claimed else None

        async def run() -> int | None:
            async with open_database(self.app_url, publish=lambda _hints: None) as db:
                return await claim(db)

        return trio.run(run)


def lines_on_a_terminal(program: Program, *arguments: str, columns: int) -> list[str]:
    """What a command prints where it has a terminal so wide."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with subprocess.Popen(
        [sys.executable, "-m", "muster", *arguments],
        env=program.environ | {"TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
    ) as child:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # that is how a terminal ends that nobody writes to
            while part := os.read(ours, 65536):
                text += part
        os.close(ours)
        assert child.wait(60) == 0
    return text.decode().splitlines()


@pytest.fixture
def desk(own_database: OwnDatabase, tmp_path: Path) -> Desk:
    """Ada's desk."""
    program = program_on(own_database, tmp_path)

    async def furnish() -> Desk:
        async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
            owner = await add_owner(db, "ada")
            plugin = await make_plugin(db, owner, "mail")
            chief = await make_chief(db, owner, "helper")
            hostile = Post(
                external_id="queued-1", body=f"line one\n{HOSTILE}", sender=HOSTILE, no_reply=True
            )
            queued = await db.run(plugin, post, hostile)
            message = await make_message(db, plugin, delivered_to=chief, external_id="msg-1")
            draft = await make_draft(db, chief, message, body=REPLY)
            return Desk(
                program=program,
                app_url=own_database.app_url,
                owner=owner,
                plugin=plugin,
                chief=chief,
                queued_id=queued.id,
                message_id=message.id,
                draft_id=draft.id,
            )

    return trio.run(furnish)


def test_messages_are_listed(desk: Desk) -> None:
    """Messages are listed newest first, by state and by plugin."""
    listing = ("messages", "list", "--owner", "ada", "--json")
    rows = desk.program.call(*listing).document
    assert [(row["message_id"], row["state"]) for row in rows] == [
        (desk.message_id, "delivered"),
        (desk.queued_id, "queued"),
    ]
    assert rows[0]["plugin"] == "mail"
    assert rows[0]["external_id"] == "msg-1"
    assert rows[0]["sender_verified"] is False
    assert rows[0]["created_at"].endswith("Z")
    assert "body" not in rows[0]
    (queued,) = desk.program.call(*listing, "--state", "queued", "--plugin", "mail").document
    assert queued["message_id"] == desk.queued_id
    assert desk.program.call(*listing, "--state", "unconfirmed").document == []
    assert len(desk.program.call(*listing, "--limit", "1").document) == 1
    assert desk.program.call(*listing, "--plugin", "post").code == 3


def test_one_message_is_shown(desk: Desk) -> None:
    """A message is shown whole, its sender marked as unproven, and nothing of it paints."""
    shown = desk.program.call("messages", "show", str(desk.queued_id), "--json").document
    assert shown["body"] == f"line one\n{HOSTILE}"
    assert shown["no_reply"] is True
    for ended in (
        desk.program.call("messages", "show", str(desk.queued_id)),
        desk.program.call("messages", "list"),
    ):
        assert ended.code == 0
        assert "UNVERIFIED" in ended.out
        assert r"\x1b[2J\x1b]0;owned\x07[bold]Ada[/bold]\u202e" in ended.out
        assert not set(ended.out) & {"\x1b", "\x07", "\u202e"}
    assert desk.program.call("messages", "show", "999", "--json").refusal["code"] == "not_found"
    assert desk.program.call("messages", "show", str(2**63)).code == 2


def test_a_delivering_message_shows_its_age(desk: Desk) -> None:
    """A message that a chief has in hand tells for how long, on a narrow terminal too."""

    async def hand_over() -> None:
        async with open_database(desk.app_url, publish=lambda _hints: None) as db:
            command = begin(desk.chief)
            await move_message(db, desk.queued_id, command, owner_id=desk.owner.owner_id)

    trio.run(hand_over)
    lines = lines_on_a_terminal(desk.program, "messages", "list", columns=60)
    assert max(map(len, lines)) <= 60
    assert any(re.search(r" delivering for \d+ \w+$", line) for line in lines)
    out = desk.program.call("messages", "show", str(desk.queued_id)).out
    assert re.search(r"State +delivering for \d+ s\n", out)


def test_what_a_turn_took_is_shown(desk: Desk) -> None:
    """A message whose turn's tokens were counted tells them, to a person and to a program."""
    use = TokenUse(
        model="model\u202e",
        calls=2,
        input_tokens=1300,
        cached_input_tokens=200,
        output_tokens=40,
    )

    async def settle() -> None:
        async with open_database(desk.app_url, publish=lambda _hints: None) as db:
            for command in (begin(desk.chief), Fail(epoch=1, usage=use)):
                await move_message(db, desk.queued_id, command, owner_id=desk.owner.owner_id)

    show = ("messages", "show")
    assert desk.program.call(*show, str(desk.queued_id), "--json").document["usage"] is None
    assert "Tokens" not in desk.program.call(*show, str(desk.message_id)).out
    trio.run(settle)
    shown = desk.program.call(*show, str(desk.queued_id), "--json").document
    assert shown["usage"] == attrs.asdict(use)
    out = desk.program.call(*show, str(desk.queued_id)).out
    assert r"Tokens    1,300 in (200 cached), 40 out, 2 calls, model\u202e" in out
    (row, *_) = desk.program.call("audit", "--json").document
    assert (row["action"], row["data"]["usage"]) == ("plugin.delivered", attrs.asdict(use))
    assert '"input_tokens": 1300' in desk.program.call("audit").out.replace("\n", " ")


def test_what_a_server_did_not_count_is_not_shown_as_nothing(desk: Desk) -> None:
    """Calls to a model whose server counts no tokens are told as calls, and not as free ones."""

    async def settle() -> None:
        use = TokenUse(
            model="small", calls=1, input_tokens=0, cached_input_tokens=0, output_tokens=0
        )
        async with open_database(desk.app_url, publish=lambda _hints: None) as db:
            for command in (begin(desk.chief), Fail(epoch=1, usage=use)):
                await move_message(db, desk.queued_id, command, owner_id=desk.owner.owner_id)

    trio.run(settle)
    out = desk.program.call("messages", "show", str(desk.queued_id)).out
    assert "Tokens    not told by the model's server, 1 call, small" in out


def test_drafts_are_listed_and_shown(desk: Desk) -> None:
    """A draft shows the message it answers, the exact reply, its digest and what to type next."""
    digest = sha256(REPLY.encode()).hexdigest()
    (row,) = desk.program.call("drafts", "list", "--owner", "ada", "--json").document
    assert (row["draft_id"], row["message_id"]) == (desk.draft_id, desk.message_id)
    assert (row["state"], row["body"], row["body_sha256"]) == ("pending", REPLY, digest)
    assert (row["message_external_id"], row["plugin"]) == ("msg-1", "mail")
    assert desk.program.call("drafts", "list", "--state", "sent", "--json").document == []
    shown = desk.program.call("drafts", "show", str(desk.draft_id), "--json").document
    assert shown["message"]["body"] == "Does noon work?"
    assert shown["earlier_unconfirmed"] == []
    out = desk.program.call("drafts", "show", str(desk.draft_id), "--owner", "ada").out
    assert "do not trust" in out
    assert "  | Does noon work?\n" in out
    assert "  | Thanks, noon works.\n  | See you thére.\n" in out
    assert f"{len(REPLY)} characters" in out
    assert f"muster drafts approve {desk.draft_id} --owner ada --sha256 {digest}\n" in out
    assert "Thanks, noon works. See you" in desk.program.call("drafts", "list").out
    assert desk.program.call("drafts", "show", "999", "--json").code == 3


def test_what_is_printed_to_type_next_works(desk: Desk) -> None:
    """The line that `drafts show` prints for approving, typed into a shell, approves the draft."""
    out = desk.program.call("drafts", "show", str(desk.draft_id), "--owner", "ada").out
    line = out.partition("To send exactly this text:\n")[2].partition("\n")[0]
    typed = ["/bin/sh", "-c", line]
    subprocess.run(typed, env=desk.program.environ, cwd="/", check=True, timeout=60)
    (row,) = desk.program.call("drafts", "list", "--json").document
    assert row["state"] == "approved"


@pytest.mark.parametrize("room", ["messages", "drafts"])
def test_a_listed_row_fits_a_narrow_terminal(desk: Desk, room: str) -> None:
    """On 80 columns each message and draft is one line, marked and with its id and its state."""
    lines = lines_on_a_terminal(desk.program, room, "list", columns=80)
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line[:2].strip().isdigit()]
    expected = {"messages": [desk.message_id, desk.queued_id], "drafts": [desk.draft_id]}[room]
    assert [int(row.split()[0]) for row in rows] == expected
    assert all("UNVERIFIED" in row for row in rows)
    assert len(lines) == len(rows) + len(("", "the heading", "a rule", ""))


def test_a_draft_is_approved(desk: Desk) -> None:
    """Approving takes the text that was read alone, once, and says by which door it was done."""
    approve = ("drafts", "approve", str(desk.draft_id), "--owner", "ada", "--json")
    other = desk.program.run(*approve, "--sha256", "0" * 64)
    assert (other.code, other.refusal["code"]) == (4, "other_text")
    digest = sha256(REPLY.encode()).hexdigest()
    approved = desk.program.run(*approve, "--sha256", digest).document
    assert approved["draft_id"] == desk.draft_id
    assert (approved["state"], approved["decided_via"]) == ("approved", "cli")
    assert approved["body_sha256"] == digest
    again = desk.program.run(*approve)
    assert (again.code, again.refusal["status"]) == (4, "approved")
    (row,) = desk.program.run("audit", "--limit", "1", "--json").document
    assert row["action"] == "plugin.draft.approved"
    assert row["data"]["decided_via"] == "cli"
    lines = lines_on_a_terminal(desk.program, "audit", "--limit", "1", columns=140)
    assert '"decided_via": "cli"' in lines[3]
    assert "…" in lines[3], "the digest is what was cut"
    assert "drafts reject" in desk.program.run("drafts", "show", str(desk.draft_id)).out
    assert desk.claim() == desk.draft_id
    assert desk.program.run("drafts", "reject", str(desk.draft_id), "--json").code == 4
    assert "is sending it" in desk.program.run("drafts", "show", str(desk.draft_id)).out


def test_an_approval_is_taken_back(desk: Desk) -> None:
    """A rejected draft is never sent, whether it was pending or approved before."""
    assert desk.program.call("drafts", "approve", str(desk.draft_id)).code == 0
    rejected = desk.program.call("drafts", "reject", str(desk.draft_id), "--json").document
    assert (rejected["state"], rejected["decided_via"]) == ("rejected", "cli")
    out = desk.program.call("drafts", "show", str(desk.draft_id)).out
    assert [line.split() for line in out.splitlines() if "rejected" in line] == [
        ["State", "rejected"]
    ]
    assert desk.claim() is None
    again = desk.program.call("drafts", "approve", str(desk.draft_id))
    assert (again.code, "is rejected already; nothing was changed" in again.err) == (4, True)
    assert desk.program.call("drafts", "approve", "999").code == 3


def test_decisions_can_be_switched_off(desk: Desk) -> None:
    """With MUSTER_CLI_DECISIONS=0 nothing is decided by command line, and all is still shown."""
    for verb in ("approve", "reject"):
        ended = desk.program.call(
            "drafts", verb, str(desk.draft_id), "--json", MUSTER_CLI_DECISIONS="0"
        )
        assert (ended.code, ended.refusal["code"]) == (4, "cli_decisions_off")
    shown = desk.program.call(
        "drafts", "show", str(desk.draft_id), "--json", MUSTER_CLI_DECISIONS="0"
    )
    assert shown.document["state"] == "pending"


def test_another_owner_sees_nothing(desk: Desk) -> None:
    """Bob can neither list, show nor decide what is Ada's."""
    desk.program.add_user("bob")
    bob = ("--owner", "bob", "--json")
    assert desk.program.call("drafts", "list", *bob).document == []
    assert desk.program.call("messages", "list", *bob).document == []
    for arguments in (
        ("drafts", "show", str(desk.draft_id)),
        ("drafts", "approve", str(desk.draft_id)),
        ("drafts", "reject", str(desk.draft_id)),
        ("messages", "show", str(desk.message_id)),
    ):
        assert desk.program.call(*arguments, *bob).refusal["code"] == "not_found"


def test_a_revoked_plugins_work_stands_still(desk: Desk) -> None:
    """After a revocation the draft can't be approved, and all that came in is still listed."""
    assert desk.program.call("plugin", "revoke", "mail").code == 0
    ended = desk.program.call("drafts", "approve", str(desk.draft_id), "--json")
    assert (ended.code, ended.refusal["code"]) == (4, "plugin_revoked")
    rows = json.loads(desk.program.call("messages", "list", "--json").out)
    assert [row["plugin"] for row in rows] == ["mail", "mail"]


def test_an_earlier_reply_may_have_gone(desk: Desk) -> None:
    """A new draft beside an unconfirmed one warns that the earlier may have been sent."""
    desk.program.call("drafts", "approve", str(desk.draft_id))
    assert desk.claim() == desk.draft_id

    async def write_again() -> int:
        async with open_database(desk.app_url, publish=lambda _hints: None) as db:
            db.clock_offset += LEASE_IS_OVER
            message = await get_message(db, desk.owner, desk.message_id)
            return (await make_draft(db, desk.chief, message, body="Noon it is.")).id

    second = trio.run(write_again)
    shown = desk.program.call("drafts", "show", str(second), "--json").document
    assert shown["earlier_unconfirmed"] == [desk.draft_id]
    assert (
        f"Careful: of draft {desk.draft_id}" in desk.program.call("drafts", "show", str(second)).out
    )


def test_another_reply_was_sent_already(desk: Desk) -> None:
    """A new draft to a message that was answered says so, listed and shown, and the sent does not.

    The message's id stands beside each draft.
    """
    desk.program.call("drafts", "approve", str(desk.draft_id))
    assert desk.claim() == desk.draft_id

    async def answer_and_write_again() -> int:
        async with open_database(desk.app_url, publish=lambda _hints: None) as db:
            sent = Report(draft_id=desk.draft_id, ok=True, external_ref="<1@home>")
            await db.run(desk.plugin, report, sent)
            message = await get_message(db, desk.owner, desk.message_id)
            return (await make_draft(db, desk.chief, message, body="Noon it is.")).id

    second = trio.run(answer_and_write_again)
    newer, older = desk.program.call("drafts", "list", "--json").document
    assert (newer["already_sent"], older["already_sent"]) == ([desk.draft_id], [])
    shown = desk.program.call("drafts", "show", str(second), "--json").document
    assert shown["already_sent"] == [desk.draft_id]
    told = f"Careful: draft {desk.draft_id} to the same message was sent already."
    assert told in desk.program.call("drafts", "show", str(second)).out
    assert "Careful" not in desk.program.call("drafts", "show", str(desk.draft_id)).out
    lines = lines_on_a_terminal(desk.program, "drafts", "list", columns=60)
    assert max(map(len, lines)) <= 60
    assert f"pending   {desk.message_id} answered" in lines[3]
    assert re.search(rf" sent +{desk.message_id}  ", lines[4])
