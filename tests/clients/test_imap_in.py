"""Mail from an account of a real dovecot, brought to a scripted muster."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio

from muster.clients.mail import imap_in
from muster.clients.mail.imap_in import ImapSettingsError, ImapUnreachableError
from muster.clients.mail.settings import EVERYTHING, Login, MailServer, Security
from muster.clients.plugin import TryLaterError
from tests.support.dovecot import PASSWORD, Dovecot, running_dovecot
from tests.support.imap_post import ImapPost, external_id, mail
from tests.support.scripted_server import MESSAGES, Answer, Step, scripted_server
from tests.support.waiting import until

LONG_AGO = datetime(2006, 5, 4, 3, 2, 1, tzinfo=UTC)
PATIENCE_SECONDS = 20.0


@pytest.fixture
async def dovecot() -> AsyncIterator[Dovecot]:
    """Yield a running dovecot without any mail."""
    async with running_dovecot() as server:
        yield server


def account(
    dovecot: Dovecot, *, security: Security = Security.NONE, password: str = PASSWORD
) -> MailServer:
    """Ada's account there."""
    return MailServer(
        host="127.0.0.1",
        port=dovecot.tls_port if security is Security.TLS else dovecot.port,
        security=security,
        login=Login(user="ada", password=password),
        tls=None if security is Security.NONE else dovecot.tls(),
    )


@pytest.fixture
async def post(dovecot: Dovecot, tmp_path: Path) -> AsyncIterator[ImapPost]:
    """Yield Ada's account with a muster to post to."""
    async with scripted_server() as server:
        yield ImapPost(server=server, account=account(dovecot), folder=tmp_path)


async def append(
    dovecot: Dovecot, *mails: bytes, folder: str = "INBOX", at: datetime | None = None
) -> None:
    """Let mail arrive."""
    await trio.to_thread.run_sync(partial(dovecot.append, "ada", *mails, folder=folder, at=at))


async def do(dovecot: Dovecot, *commands: tuple[str, str]) -> None:
    """Let another mail program of Ada's do something with folders."""

    def work() -> None:
        with dovecot.client("ada") as client:
            for name, folder in commands:
                getattr(client, name)(folder)

    await trio.to_thread.run_sync(work)


async def test_only_what_arrives_from_now_on_is_brought(post: ImapPost, dovecot: Dovecot) -> None:
    """An account's old mail stays where it is, what arrives later is posted once, none is read."""
    await append(dovecot, mail(1), mail(2))
    assert await post.once() == 0
    assert post.posted() == []
    await append(dovecot, mail(3), mail(4))
    assert await post.once() == 0
    assert await post.once() == 0
    assert post.posted() == ["Mail 3", "Mail 4"]
    assert post.post_count() == 2
    assert list(post.server.messages) == [external_id(mail(3)), external_id(mail(4))]
    flags = await trio.to_thread.run_sync(dovecot.flags, "ada")
    assert flags == {1: (), 2: (), 3: (), 4: ()}


async def test_a_reply_to_a_mail_from_imap(post: ImapPost, dovecot: Dovecot) -> None:
    """While the plugin runs, a mail is posted as it arrives, and its reply goes out."""
    post.poll_seconds = 1680
    async with post.running():
        await until(lambda: post.told("from now on"), PATIENCE_SECONDS)
        await append(dovecot, mail(1))
        await until(lambda: post.posted() == ["Mail 1"], PATIENCE_SECONDS)
        post.server.approve(17, external_id(mail(1)), "Hello Bo.")
        await until(lambda: post.server.results, PATIENCE_SECONDS)
        # The same connection goes on to wait.
        await append(dovecot, mail(2))
        await until(lambda: len(post.posted()) == 2, PATIENCE_SECONDS)
    [reply] = (post.folder / "out" / "new").iterdir()
    assert b"In-Reply-To: <m1@x.test>" in reply.read_bytes()


@pytest.mark.parametrize("security", [Security.TLS, Security.STARTTLS])
async def test_over_tls(post: ImapPost, dovecot: Dovecot, security: Security) -> None:
    """Mail comes over TLS from the start and over STARTTLS, and IDLE tells of it there too."""
    post.account = account(dovecot, security=security)
    post.poll_seconds = 1680
    async with post.running():
        await until(lambda: post.told("from now on"), PATIENCE_SECONDS)
        await append(dovecot, mail(1))
        await until(lambda: post.posted() == ["Mail 1"], PATIENCE_SECONDS)


async def test_everything_if_it_is_asked_for(post: ImapPost, dovecot: Dovecot) -> None:
    """With `since` all mail is posted, the oldest UID first; a start without it came too early."""
    await append(dovecot, mail(1), at=LONG_AGO)
    await append(dovecot, mail(2))
    await post.once()
    post.since = EVERYTHING
    await post.once()
    assert post.posted() == ["Mail 1", "Mail 2"]
    await post.once()
    assert post.post_count() == 2


async def test_since_a_date(post: ImapPost, dovecot: Dovecot) -> None:
    """With a date, mail of that day and later is posted, and what was left out is told."""
    await append(dovecot, mail(1), at=LONG_AGO - timedelta(days=2))
    await append(dovecot, mail(2), at=LONG_AGO)
    await append(dovecot, mail(3))
    post.since = date(2006, 5, 4)
    await post.once()
    assert post.posted() == ["Mail 2", "Mail 3"]
    assert post.told("1 mails from before 2006-05-03 10:00 UTC are left") == 1


async def test_an_old_mail_that_is_moved_in_is_not_new(post: ImapPost, dovecot: Dovecot) -> None:
    """An archive that is copied into the folder later is not posted, and its count is told."""
    await post.once()
    await append(dovecot, mail(1), mail(2), at=LONG_AGO)
    await post.once()
    await append(dovecot, mail(3))
    # The second look does not go over the archive again.
    await post.once()
    assert post.posted() == ["Mail 3"]
    assert post.told("2 mails from before") == 1


async def test_two_folders_take_turns(
    post: ImapPost, dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full folder can't starve another, and a name outside ASCII is a name."""
    monkeypatch.setattr(imap_in, "TURN_COUNT", 2)
    post.folders = ("INBOX", "Größere/Pläne & mehr")
    await do(dovecot, ("create_folder", post.folders[1].replace("/", ".")))
    post.folders = ("INBOX", post.folders[1].replace("/", "."))
    await post.once()
    await append(dovecot, *map(mail, range(1, 6)))
    await append(dovecot, mail(6), folder=post.folders[1])
    await post.once()
    assert post.posted() == [f"Mail {number}" for number in (1, 2, 6, 3, 4, 5)]


async def test_the_other_folders_are_polled(post: ImapPost, dovecot: Dovecot) -> None:
    """IDLE watches the first folder; mail in another is found by the poll."""
    await do(dovecot, ("create_folder", "Lists"))
    post.folders = ("INBOX", "Lists")
    post.poll_seconds = 1
    async with post.running():
        await until(lambda: post.told("from now on") == 2, PATIENCE_SECONDS)
        await append(dovecot, mail(1), folder="Lists")
        await until(lambda: post.posted() == ["Mail 1"], PATIENCE_SECONDS)


async def test_a_folder_made_anew(post: ImapPost, dovecot: Dovecot) -> None:
    """After a UIDVALIDITY change what arrived since the start is posted, repeats harmlessly."""
    await do(dovecot, ("create_folder", "Lists"))
    post.folders = ("Lists",)
    await post.once()
    await append(dovecot, mail(1), mail(2), folder="Lists")
    await post.once()
    await do(dovecot, ("delete_folder", "Lists"), ("create_folder", "Lists"))
    await append(dovecot, mail(9), at=LONG_AGO, folder="Lists")
    await append(dovecot, mail(2), mail(3), folder="Lists")
    await post.once()
    assert post.posted() == ["Mail 1", "Mail 2", "Mail 3"]
    assert post.told("was made anew") == 1
    assert post.post_count() == 4


async def test_a_server_that_is_killed(post: ImapPost, dovecot: Dovecot) -> None:
    """While the server is dead the plugin waits, and goes on with what arrived meanwhile."""
    async with post.running():
        await until(lambda: post.told("from now on"), PATIENCE_SECONDS)
        await dovecot.kill()
        await until(lambda: post.told("can't be read"), PATIENCE_SECONDS)
        await dovecot.start()
        await append(dovecot, mail(1))
        await until(lambda: post.posted() == ["Mail 1"], PATIENCE_SECONDS)
        await dovecot.kill()
        await dovecot.start()
        await append(dovecot, mail(2))
        await until(lambda: post.posted() == ["Mail 1", "Mail 2"], PATIENCE_SECONDS)
    assert post.told("can be read again") >= 1


async def test_a_refused_mail_is_remembered(post: ImapPost, dovecot: Dovecot) -> None:
    """A refusal moves the cursor, is told with the mail's place and kept with its reason."""
    await post.once()
    await append(dovecot, mail(1), mail(2))
    told = {"error": "bad subject", "field": "subject"}
    post.server.script(MESSAGES, Answer(status=400, body=told))
    assert await post.once() == 1
    assert await post.once() == 0
    assert post.posted() == ["Mail 2"]
    assert post.post_count() == 2
    assert post.told("imap://ada@127.0.0.1/INBOX;UID=1 was refused") == 1
    with sqlite3.connect(post.folder / "state" / "journal.sqlite3") as db:
        [row] = db.execute("select uid, state, external_id, reason from imap_mails")
    db.close()
    assert row == (1, "refused", external_id(mail(1)), "bad subject (subject)")


async def test_muster_is_busy(post: ImapPost, dovecot: Dovecot) -> None:
    """A 503 or a 429 moves no cursor: the same mail comes again, in this run or the next."""
    await post.once()
    await append(dovecot, mail(1), mail(2))
    late = {"Retry-After": "60"}
    post.server.script(MESSAGES, Answer(status=429, body={"error": "x"}, headers=late))
    with pytest.raises(TryLaterError):
        await post.once()
    post.server.script(MESSAGES, Answer(status=503, body={"error": "x"}))
    async with post.running():
        await until(lambda: post.posted() == ["Mail 1", "Mail 2"], PATIENCE_SECONDS)
    assert post.post_count() == 4


async def test_a_long_mail_is_read_in_part(
    post: ImapPost, dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail over the limit is posted under the id of all of it, and says where the whole lies."""
    monkeypatch.setattr(imap_in, "READ_BYTES_MAX", 2000)
    await post.once()
    raw = mail(1, size_bytes=3_000_000)
    await append(dovecot, raw)
    await post.once()
    [(found, message)] = post.server.messages.items()
    assert found == external_id(raw)
    assert message["body"].startswith(
        "[Only the first 2,000 bytes were read; the whole lies at imap:"
    )


@pytest.mark.parametrize("security", list(Security))
async def test_a_wrong_password_ends_it(
    post: ImapPost, dovecot: Dovecot, security: Security
) -> None:
    """A refused login at the start is a clear error that does not show the password."""
    post.account = account(dovecot, security=security, password="hush-hush")
    with pytest.raises(ImapSettingsError, match="refuses the login") as caught:
        await post.once()
    with pytest.raises(ImapSettingsError):
        await post.run(once=False)
    assert "hush" not in repr(caught.value) + "".join(post.notes)


async def test_an_untrusted_certificate_ends_it(post: ImapPost, dovecot: Dovecot) -> None:
    """A certificate that nobody vouches for is a clear error at the start."""
    post.account = MailServer(
        host="127.0.0.1",
        port=dovecot.tls_port,
        security=Security.TLS,
        login=Login(user="ada", password=PASSWORD),
    )
    with pytest.raises(ImapSettingsError, match=r"certificate of 127.0.0.1 is not trusted"):
        await post.once()


async def test_a_folder_that_never_was(post: ImapPost, dovecot: Dovecot) -> None:
    """A folder that the account does not have is told at the start with those that it has."""
    await do(dovecot, ("create_folder", "Lists"))
    post.folders = ("Lits",)
    with pytest.raises(ImapSettingsError, match="no folder 'Lits'; it has INBOX, Lists"):
        await post.once()


async def test_a_folder_that_goes_is_waited_for(post: ImapPost, dovecot: Dovecot) -> None:
    """A known folder that is deleted holds nobody up, also over a restart, and may come back."""
    await do(dovecot, ("create_folder", "Lists"))
    post.folders = ("Lists", "INBOX")
    await post.once()
    await do(dovecot, ("delete_folder", "Lists"))
    await append(dovecot, mail(1))
    assert await post.once() == 1
    assert post.posted() == ["Mail 1"]
    assert post.told("cannot read the folder Lists") == 1
    post.poll_seconds = 1
    async with post.running():
        await until(lambda: post.told("cannot read the folder Lists") == 2, PATIENCE_SECONDS)
        await do(dovecot, ("create_folder", "Lists"))
        await append(dovecot, mail(2), folder="Lists")
        await until(lambda: post.posted() == ["Mail 1", "Mail 2"], PATIENCE_SECONDS)
        assert post.told("the folder Lists can be read again") == 1
        # And once more, while it is the one that IDLE watches.
        await do(dovecot, ("delete_folder", "Lists"))
        await append(dovecot, mail(3))
        await until(lambda: post.posted()[-1:] == ["Mail 3"], PATIENCE_SECONDS)
        await do(dovecot, ("create_folder", "Lists"))
        await append(dovecot, mail(4), folder="Lists")
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)


async def test_a_run_does_not_wait_for_ever(post: ImapPost, dovecot: Dovecot) -> None:
    """A single run ends with an error when the server stays away, and the mail comes later."""
    await post.once()
    await append(dovecot, mail(1))
    await dovecot.kill()
    with pytest.raises(ImapUnreachableError, match="can't be read"):
        await post.once()
    await dovecot.start()
    await post.once()
    assert post.posted() == ["Mail 1"]


async def test_nothing_is_lost_between_kills(post: ImapPost, dovecot: Dovecot) -> None:
    """Over kills of the server, restarts of the plugin and a busy muster each mail arrives."""
    await post.once()
    sent: list[str] = []
    for life in range(3):
        post.server.script(MESSAGES, Answer(status=503, body={"error": "x"}), Step.LOSE_ANSWER)
        async with post.running():
            for _ in range(2):
                numbers = range(len(sent), len(sent) + 5)
                await append(dovecot, *map(mail, numbers))
                sent += [f"Mail {number}" for number in numbers]
                # Later in each life, so that the kill meets another step.
                await post.has_more_than(len(sent) - 5 + life)
                await dovecot.kill()
                await dovecot.start()
    assert await post.once() == 0
    assert post.posted() == sent
