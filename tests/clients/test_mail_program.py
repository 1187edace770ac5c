"""The mail plugin end to end, against a scripted muster and as a process that gets killed."""

import email
import email.policy
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.mail import maildir as maildir_module
from muster.clients.mail.maildir import make_outbox
from muster.clients.mail.maildir_out import MaildirOut
from muster.clients.mail.program import run_mail
from muster.clients.mail.settings import FromMaildir, ToMaildir
from muster.clients.mail.state import MailState
from muster.clients.plugin import (
    ClaimLostError,
    Draft,
    NotSignedInError,
    PluginsOffError,
    SendFailedError,
    StateFolderBusyError,
    TryLaterError,
    UnexpectedAnswerError,
    UnreachableError,
    open_journal,
)
from muster.commands import mail as mail_command
from muster.commands.exits import Exit, exit_of
from tests.support.scripted_server import (
    MESSAGES,
    RESULT,
    TOKEN,
    Answer,
    ScriptedServer,
    Step,
    scripted_server,
)
from tests.support.waiting import dawdle, until

ROOT = Path(__file__).parents[2]
DEMO_MAIL = ROOT / "muster" / "clients" / "demo" / "mail"


@attrs.define(kw_only=True)
class Post:
    """A mail plugin's three folders and the muster that it talks to."""

    server: ScriptedServer
    folder: Path
    notes: list[str] = attrs.field(factory=list)

    def put(self, name: str, raw: bytes) -> str:
        """Put a mail into the inbox; returns its external id."""
        (self.folder / "in" / "new" / name).write_bytes(raw)
        return hashlib.sha256(raw).hexdigest()

    async def once(self, token: str = TOKEN) -> int:
        """Run the plugin until there is nothing to do."""
        return await run_mail(
            url=self.server.url,
            token=token,
            incoming=FromMaildir(folder=self.folder / "in"),
            outgoing=ToMaildir(folder=self.folder / "out"),
            state_folder=self.folder / "state",
            once=True,
            patience_seconds=1,
            note=self.notes.append,
        )

    def replies(self) -> list[email.message.EmailMessage]:
        """The mails in the outbox."""
        read = [
            email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
            for path in sorted((self.folder / "out" / "new").iterdir())
        ]
        return [reply for reply in read if isinstance(reply, email.message.EmailMessage)]

    def command(self, *more: str) -> list[str]:
        """`muster mail` on these folders."""
        return [
            *(sys.executable, "-m", "muster", "mail", "--url", self.server.url),
            *("--maildir", str(self.folder / "in"), "--outbox", str(self.folder / "out")),
            *("--state", str(self.folder / "state"), *more),
        ]

    async def run(self, *more: str, token: str = TOKEN) -> subprocess.CompletedProcess[bytes]:
        """Run the command until it ends."""
        with trio.fail_after(60):
            return await trio.run_process(
                self.command(*more),
                cwd=ROOT,
                env={**os.environ, "MUSTER_PLUGIN_TOKEN": token},
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Post]:
    """Yield an empty inbox with a muster to post to."""
    make_outbox(tmp_path / "in", maildir=tmp_path / "out")
    async with scripted_server() as server:
        yield Post(server=server, folder=tmp_path)


MAIL = b"From: Bo <bo@x.test>\nTo: ada@home.test\nSubject: Hi\nMessage-ID: <m1@x.test>\n\nHello\n"


@pytest.mark.rule(7)
async def test_mail_in_and_reply_out(post: Post) -> None:
    """A mail is posted once, and its approved reply lies in the outbox as an answer to it."""
    external_id = post.put("1", MAIL)
    assert await post.once() == 0
    post.server.approve(17, external_id, "Hello Bo.")
    assert await post.once() == 0
    assert await post.once() == 0
    assert len(post.server.asked(MESSAGES)) == 1
    [reply] = post.replies()
    assert reply["To"] == "bo@x.test"
    assert reply["From"] == "ada@home.test"
    assert reply["Subject"] == "Re: Hi"
    assert reply["In-Reply-To"] == reply["References"] == "<m1@x.test>"
    assert reply.get_content().strip() == "Hello Bo."
    assert post.server.results == {17: {"ok": True, "external_ref": reply["Message-ID"]}}
    assert (post.folder / "in" / "new" / "1").read_bytes() == MAIL


async def test_every_demo_mail_is_posted_and_answered(post: Post) -> None:
    """The demo's mails go in in the order of their names, and each answerable one is answered."""
    shutil.copytree(DEMO_MAIL, post.folder / "in" / "new", dirs_exist_ok=True)
    assert await post.once() == 0
    messages = list(post.server.messages.values())
    assert [message["subject"][:5] for message in messages[:2]] == ["Lunch", "Your "]
    answerable = [message for message in messages if not message.get("no_reply")]
    for number, message in enumerate(answerable):
        post.server.approve(number, message["external_id"], "Danke für die Nachricht. 了解です。")
    assert await post.once() == 0
    replies = post.replies()
    assert len(replies) == len(answerable) == len(messages) - 1
    assert all(reply["In-Reply-To"] and not reply.defects for reply in replies)
    assert all(result["ok"] for result in post.server.results.values())


async def test_the_cursor_survives_and_follows_renames(post: Post) -> None:
    """A mail that is read by a mail program (moved to cur, flagged) is not posted again."""
    post.put("1", MAIL)
    await post.once()
    (post.folder / "in" / "new" / "1").rename(post.folder / "in" / "cur" / "1:2,S")
    await post.once()
    assert len(post.server.asked(MESSAGES)) == 1


async def test_a_mail_without_an_answer_is_posted_again(post: Post) -> None:
    """When posting ends without a 2xx, the next run posts the same mail."""
    post.put("1", MAIL)
    late = {"Retry-After": "60"}
    post.server.script(MESSAGES, Answer(status=429, body={"error": "x"}, headers=late))
    with pytest.raises(TryLaterError):
        await post.once()
    assert post.server.messages == {}
    await post.once()
    assert len(post.server.messages) == 1


async def test_a_refused_mail_is_remembered_and_the_others_go_on(post: Post) -> None:
    """A mail that muster refuses is said on stderr with its reason, once."""
    post.put("1", MAIL)
    post.put("2", MAIL + b"again")
    told = {"error": "bad subject", "field": "subject"}
    post.server.script(MESSAGES, Answer(status=400, body=told))
    assert await post.once() == 1
    assert len(post.server.messages) == 1
    assert any("was refused" in note and "bad subject (subject)" in note for note in post.notes)
    assert await post.once() == 0
    assert len(post.server.asked(MESSAGES)) == 2


async def test_an_unreadable_mail_waits(post: Post) -> None:
    """A file that can't be read holds nobody up, and is posted once it can be."""
    path = post.folder / "in" / "new" / "1"
    path.symlink_to(path)
    post.put("2", MAIL + b"again")
    assert await post.once() == 1
    assert len(post.server.messages) == 1
    assert sum("cannot read" in note for note in post.notes) == 1
    path.unlink()
    post.put("1", MAIL)
    assert await post.once() == 0
    assert len(post.server.messages) == 2


async def test_a_huge_mail_is_read_in_part(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail over the reading limit is posted under the id of the whole file, and says so."""
    monkeypatch.setattr(maildir_module, "READ_BYTES_MAX", 200)
    external_id = post.put("1", MAIL + b"x" * 1000)
    assert await post.once() == 0
    assert post.server.messages[external_id]["body"].startswith("[Only the first 200 bytes")


async def test_a_reply_to_an_unknown_mail_is_reported_unsent(post: Post) -> None:
    """A draft for a mail that this folder never saw is known not to have been sent."""
    post.server.approve(17, "ff" * 32)
    await post.once()
    assert post.server.results[17]["ok"] is False
    assert "does not know the mail" in post.server.results[17]["detail"]
    assert post.replies() == []


async def test_a_reply_can_be_sent_when_the_mail_is_gone(post: Post) -> None:
    """What a reply needs is kept, so the mail itself may be deleted."""
    external_id = post.put("1", MAIL)
    await post.once()
    (post.folder / "in" / "new" / "1").unlink()
    post.server.approve(17, external_id)
    await post.once()
    assert [reply["To"] for reply in post.replies()] == ["bo@x.test"]


async def test_an_outbox_that_cannot_be_written_is_told(post: Post) -> None:
    """A reply that could not be written is known not to have been sent, and why."""
    external_id = post.put("1", MAIL)
    await post.once()
    shutil.rmtree(post.folder / "out" / "tmp")
    draft = Draft(draft_id=1, message_external_id=external_id, body="x", approved_at="t")
    async with open_journal(post.folder / "state") as journal:
        sink = MaildirOut(outbox=post.folder / "out", state=MailState(journal), sender_address=None)
        with pytest.raises(SendFailedError, match="can't be written"):
            await sink.send(draft)
        assert await sink.was_sent(draft) is None
        make_outbox(post.folder / "out", maildir=post.folder / "in")
        reference = await sink.send(draft)
        assert await sink.was_sent(draft) == reference.external_ref
        # A second sending is seen, and is the same one.
        assert await sink.send(draft) == reference
    assert len(post.replies()) == 1


async def test_a_reply_needs_an_address_of_ours(post: Post) -> None:
    """Where the mail names no address of ours and none is given, the reply can't be sent."""
    external_id = post.put("1", b"From: Bo <bo@x.test>\n\nHello\n")
    await post.once()
    post.server.approve(17, external_id)
    await post.once()
    assert post.server.results[17]["ok"] is False
    assert "--from" in post.server.results[17]["detail"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotSignedInError("x"), Exit.NOT_SIGNED_IN),
        (StateFolderBusyError(Path("state"), 7), Exit.CONFLICT),
        (UnreachableError("x"), Exit.UNREACHABLE),
        (ClaimLostError("x"), Exit.UNREACHABLE),
        (TryLaterError("x", retry_after_seconds=1.5), Exit.TRY_LATER),
        (PluginsOffError("x"), Exit.TRY_LATER),
        (UnexpectedAnswerError("x"), Exit.FAILED),
        (ValueError("x"), Exit.BAD_CONFIGURATION),
        (NotADirectoryError("x"), Exit.USAGE),
        (PermissionError("x"), Exit.FAILED),
    ],
)
def test_every_ending_has_an_exit_code(error: Exception, code: Exit) -> None:
    """What ends the plugin is told by the exit codes of the house."""
    assert exit_of(mail_command._told(error)) is code


async def test_a_bad_token_ends_it(post: Post) -> None:
    """A token that muster does not know ends the plugin and leaves the cursor where it is."""
    post.put("1", MAIL)
    with pytest.raises(NotSignedInError):
        await post.once("mpl_other")
    await post.once()
    assert len(post.server.messages) == 1


async def test_new_mail_is_found_while_it_runs(post: Post) -> None:
    """The running plugin posts what arrives, and stops on SIGTERM with 0."""
    async with trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            post.command(), cwd=ROOT, env={**os.environ, "MUSTER_PLUGIN_TOKEN": TOKEN}
        )
        nursery.start_soon(process.wait)
        await until(lambda: post.server.requests, 30)
        post.put("1", MAIL)
        await until(lambda: post.server.messages, 10)
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(10):
            assert await process.wait() == 0


async def test_the_exit_codes(post: Post) -> None:
    """Each ending of the command has the exit code of the house."""
    post.put("1", MAIL)
    assert (await post.run("--once")).returncode == Exit.OK
    post.put("2", MAIL + b"2")
    post.server.script(MESSAGES, Answer(status=400, body={"error": "no"}))
    assert (await post.run("--once")).returncode == Exit.FAILED
    refused = await post.run("--once", token="mpl_other")
    assert refused.returncode == Exit.NOT_SIGNED_IN
    assert b"mpl_other" not in refused.stderr
    assert (await post.run("--once", token="mst_x")).returncode == Exit.BAD_CONFIGURATION
    assert (await post.run("--once", token="")).returncode == Exit.BAD_CONFIGURATION
    assert (await post.run("--once", "--from", "nobody")).returncode == Exit.BAD_CONFIGURATION
    assert (await post.run("--nonsense")).returncode == Exit.USAGE
    shutil.rmtree(post.folder / "in" / "cur")
    assert (await post.run("--once")).returncode == Exit.USAGE


async def test_the_outbox_is_no_inbox(post: Post) -> None:
    """Replies can't go into the Maildir that is read, where each would come back as mail."""
    (post.folder / "other-name").symlink_to("in")
    for outbox in ("in", "in/../in", "other-name"):
        ended = await post.run("--once", "--outbox", str(post.folder / outbox))
        assert ended.returncode == Exit.BAD_CONFIGURATION
        assert b"must be another folder" in ended.stderr
    assert not post.server.messages


def has_claimed(server: ScriptedServer, count: int) -> bool:
    """Whether so many drafts were claimed, or none is left to claim."""
    return len(server.claimed) >= count or not server.approved


async def test_a_process_killed_at_random_answers_each_mail_once(post: Post) -> None:
    """Killed again and again, the real command writes each draft once, and no result lies."""
    chance = random.Random(7)
    drafts = {}
    for number in range(1, 31):
        external_id = post.put(f"{number:02}", MAIL + str(number).encode())
        drafts[number] = external_id
    await post.run("--once")
    for number, external_id in drafts.items():
        post.server.approve(number, external_id, f"Answer {number}.")
    post.server.script(RESULT, *(Step.LOSE_ANSWER for _ in range(5)))
    kills = 0
    for _ in range(8):
        process = await trio.lowlevel.open_process(
            post.command(),
            cwd=ROOT,
            env={**os.environ, "MUSTER_PLUGIN_TOKEN": TOKEN},
            stderr=subprocess.DEVNULL,
        )
        aim = len(post.server.claimed) + 1
        await until(partial(has_claimed, post.server, aim), 30)
        await dawdle(chance.random() * 0.05, because="the kill should fall anywhere in a sending")
        process.kill()
        await process.wait()
        kills += 1
    ended = await post.run("--once")
    assert ended.returncode == 0, ended.stderr
    sent = Counter(str(reply.get_content()).strip() for reply in post.replies())
    assert max(sent.values()) == 1
    reported = {n for n, result in post.server.results.items() if result["ok"]}
    assert reported == {int(text.split()[1].strip(".")) for text in sent}
    # At most one draft a kill was in nobody's hands: its claim's answer or its sending was cut.
    assert len(reported) >= 30 - kills
