"""What the mail plugin makes of an IMAP server's faults, against a scripted one."""

from collections.abc import AsyncIterator
from datetime import date
from functools import partial
from pathlib import Path

import pytest
import trio

from muster.clients.mail import imap, imap_folder, imap_in
from muster.clients.mail.imap import ImapConnection, ImapLostError
from muster.clients.mail.imap_in import ImapUnreachableError
from muster.clients.mail.settings import EVERYTHING
from tests.support.imap_post import ImapPost, external_id, mail
from tests.support.scripted_imap import Fault, ScriptedImap, scripted_imap
from tests.support.scripted_server import scripted_server
from tests.support.waiting import until

PATIENCE_SECONDS = 10.0


@pytest.fixture
async def imap_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedImap]:
    """Yield a server with three mails, to which a lost connection is soon made again."""
    monkeypatch.setattr(imap_in, "RECONNECT_SECONDS_MAX", 0.05)
    async with scripted_imap() as server:
        server.put(mail(1), mail(2), mail(3))
        yield server


@pytest.fixture
async def post(imap_server: ScriptedImap, tmp_path: Path) -> AsyncIterator[ImapPost]:
    """Yield the account there, of which everything is brought, with a muster to post to."""
    async with scripted_server() as server:
        yield ImapPost(
            server=server, account=imap_server.account(), folder=tmp_path, since=EVERYTHING
        )


ALL = ["Mail 1", "Mail 2", "Mail 3"]


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.CUT, Fault.BYE, Fault.JUNK])
@pytest.mark.parametrize(
    "command", ["GREETING", "AUTHENTICATE", "EXAMINE", "SEARCH", "FETCH 2", "CAPABILITY"]
)
async def test_a_connection_that_breaks(
    post: ImapPost, imap_server: ScriptedImap, command: str, fault: Fault
) -> None:
    """Wherever a connection breaks, it is made again and each mail is posted once and in order."""
    imap_server.script(command, fault, fault)
    assert await post.once() == 0
    assert post.posted() == ALL
    assert post.post_count() == 3


async def test_a_break_in_a_long_mail(
    post: ImapPost, imap_server: ScriptedImap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail whose third chunk is cut off is read again from its start, and is whole."""
    monkeypatch.setattr(imap, "CHUNK_BYTES", 100)
    raw = mail(4, size_bytes=1000)
    imap_server.put(raw)
    imap_server.script("FETCH 4", Fault.NONE, Fault.NONE, Fault.CUT)
    await post.once()
    assert external_id(raw) in post.server.messages
    assert imap_server.count("FETCH 4") > 10


async def test_a_mail_that_always_breaks_it(
    post: ImapPost, imap_server: ScriptedImap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail at which the connection breaks each time is set aside, told once and tried later."""
    monkeypatch.setattr(imap_folder, "ASIDE_RETRY_SECONDS", 0.05)
    post.poll_seconds = 1
    imap_server.script("FETCH 1", *[Fault.CUT] * 6)
    async with post.running():
        await until(lambda: post.posted() == ["Mail 2", "Mail 3", "Mail 1"], PATIENCE_SECONDS)
    assert post.told("cannot read mail 1 of INBOX") == 1
    assert imap_server.count("FETCH 1") == 7


async def test_a_mail_that_is_not_handed_out(post: ImapPost, imap_server: ScriptedImap) -> None:
    """A refused FETCH holds nobody up, is told once, and is tried again by the next run."""
    imap_server.script("FETCH 2", Fault.NO, Fault.NO)
    assert await post.once() == 1
    assert await post.once() == 1
    assert post.posted() == ["Mail 1", "Mail 3"]
    assert await post.once() == 0
    assert post.posted() == ["Mail 1", "Mail 3", "Mail 2"]
    assert post.told("cannot read mail 2 of INBOX: fetch failed") == 1
    assert await post.once() == 0
    assert post.post_count() == 3


async def test_a_mail_set_aside_that_is_expunged(post: ImapPost, imap_server: ScriptedImap) -> None:
    """A mail that waits to be read and is deleted meanwhile is waited for no more."""
    imap_server.script("FETCH 2", Fault.NO)
    assert await post.once() == 1
    del imap_server.mails[2]
    assert await post.once() == 0
    assert await post.once() == 0
    assert imap_server.count("FETCH 2") == 2


async def test_no_mail_is_handed_out(
    post: ImapPost, imap_server: ScriptedImap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hands out nothing is trouble with the server, not with ever more mails."""
    monkeypatch.setattr(imap_folder, "ASIDE_COUNT_MAX", 1)
    imap_server.script("FETCH 1", Fault.NO)
    imap_server.script("FETCH 2", *[Fault.NO] * 100)
    with pytest.raises(ImapUnreachableError, match="1 unreadable mails"):
        await post.once()
    imap_server.scripts.clear()
    assert await post.once() == 0
    assert sorted(post.posted()) == ALL


async def test_an_expunged_mail_is_skipped(post: ImapPost, imap_server: ScriptedImap) -> None:
    """A mail that is gone between the listing and its turn is passed over."""
    imap_server.script("FETCH 2", Fault.EMPTY)
    assert await post.once() == 0
    assert await post.once() == 0
    assert post.posted() == ["Mail 1", "Mail 3"]
    assert imap_server.count("FETCH 2") == 1


async def test_idle_tells_of_mail(post: ImapPost, imap_server: ScriptedImap) -> None:
    """Mail that arrives during an IDLE is fetched without waiting for the poll."""
    post.poll_seconds = 1680
    async with post.running():
        await imap_server.is_idle.wait()
        imap_server.put(mail(4))
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)


async def test_news_in_one_breath_with_the_idle(post: ImapPost, imap_server: ScriptedImap) -> None:
    """Mail told in the same packet that begins the IDLE is fetched without waiting."""
    post.poll_seconds = 1680
    imap_server.tells_news = False
    imap_server.late = [mail(4)]
    async with post.running():
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)


async def test_an_idle_that_is_lost(post: ImapPost, imap_server: ScriptedImap) -> None:
    """When IDLE tells of nothing, the poll finds the mail."""
    post.poll_seconds = 1
    imap_server.tells_news = False
    async with post.running():
        await imap_server.is_idle.wait()
        imap_server.put(mail(4))
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)


async def test_a_server_without_idle(post: ImapPost, imap_server: ScriptedImap) -> None:
    """A server that knows no IDLE is never asked for it, and its folder is polled."""
    post.poll_seconds = 1
    imap_server.capabilities = "IMAP4rev1 AUTH=PLAIN"
    async with post.running():
        await until(lambda: len(post.posted()) == 3, PATIENCE_SECONDS)
        imap_server.put(mail(4))
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)
    assert imap_server.count("IDLE") == 0


@pytest.mark.parametrize("fault", [Fault.NO, Fault.DROP])
async def test_a_server_that_refuses_idle(
    post: ImapPost, imap_server: ScriptedImap, fault: Fault
) -> None:
    """A server that offers IDLE and takes none is polled after three tries, and that is told."""
    post.poll_seconds = 1
    imap_server.script("IDLE", *[fault] * 100)
    async with post.running():
        await until(lambda: post.told("takes no IDLE"), PATIENCE_SECONDS)
        imap_server.put(mail(4))
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)
    assert imap_server.count("IDLE") == 3


@pytest.mark.parametrize("command", ["SEARCH", "FETCH"])
async def test_a_folder_that_is_not_listed(
    post: ImapPost, imap_server: ScriptedImap, command: str
) -> None:
    """A server that does not list what is in a folder is asked again at the poll, not at once."""
    post.poll_seconds = 1
    post.since = date(2026, 1, 1)
    imap_server.script(command, Fault.NO, Fault.NO)
    async with post.running():
        await until(lambda: len(post.posted()) == 3, PATIENCE_SECONDS)
    assert post.told("cannot read the folder INBOX") == 1
    assert post.told("the folder INBOX can be read again") == 1
    # Two looks failed, a third one listed; each look opens the folder, and one is at the start.
    assert imap_server.count("EXAMINE") <= 7


async def test_a_server_without_uidnext(post: ImapPost, imap_server: ScriptedImap) -> None:
    """A server that does not tell UIDNEXT is asked for its last mail; nothing old is posted."""
    imap_server.tells_uid_next = False
    post.since = None
    await post.once()
    imap_server.put(mail(4))
    await post.once()
    assert post.posted() == ["Mail 4"]


async def test_many_uids_are_listed_in_stretches(
    post: ImapPost, imap_server: ScriptedImap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with large gaps between its UIDs is listed piece by piece and brought whole."""
    monkeypatch.setattr(imap_folder, "STRETCH_UIDS", 10)
    monkeypatch.setattr(imap_folder, "BATCH_COUNT", 2)
    imap_server.uid_next = 95
    imap_server.put(mail(4), mail(5), mail(6))
    await post.once()
    assert post.posted() == [f"Mail {number}" for number in range(1, 7)]
    assert imap_server.count("SEARCH") == 10


async def test_a_server_that_falls_silent(
    post: ImapPost, imap_server: ScriptedImap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without an answer is given up at its deadline, and asked again elsewhere."""
    monkeypatch.setattr(imap, "ANSWER_SECONDS", 0.3)
    imap_server.script("FETCH 2", Fault.SILENCE)
    await post.once()
    assert post.posted() == ALL


@pytest.mark.parametrize("command", ["GREETING", "AUTHENTICATE", "EXAMINE", "FETCH 2", "IDLE"])
async def test_a_stop_while_the_server_is_silent(
    post: ImapPost, imap_server: ScriptedImap, command: str
) -> None:
    """A plugin that waits for a silent server stops at once, and its thread with it."""
    imap_server.script(command, Fault.SILENCE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(post.run, once=False))
        await until(lambda: imap_server.count(command), PATIENCE_SECONDS)
        stopped_at = trio.current_time()
        nursery.cancel_scope.cancel()
    # A thread is waited for and never abandoned, so that by now there is none.
    assert trio.current_time() - stopped_at < 2
    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0


async def test_a_login_that_is_refused_later(
    post: ImapPost, imap_server: ScriptedImap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the plugin runs, a refused login is told plainly and waited out."""
    monkeypatch.setattr(imap_in, "LOGIN_SECONDS", 0.05)
    post.poll_seconds = 1680
    async with post.running():
        await imap_server.is_idle.wait()
        imap_server.script("AUTHENTICATE", Fault.NO, Fault.NO, Fault.NO)
        imap_server.put(mail(4))
        imap_server.script("EXAMINE", Fault.DROP)
        await until(lambda: post.posted()[-1:] == ["Mail 4"], PATIENCE_SECONDS)
    assert post.told("refuses the login") == 1
    assert post.told("can be read again") == 1


async def test_a_login_that_is_put_off(post: ImapPost, imap_server: ScriptedImap) -> None:
    """A server that says it can't log anybody in just now has said nothing of the password."""
    imap_server.no_code = "[UNAVAILABLE] "
    imap_server.script("AUTHENTICATE", Fault.NO)
    assert await post.once() == 0
    assert post.posted() == ALL


async def test_a_lost_connection_says_so(imap_server: ScriptedImap) -> None:
    """After a break each further command says that the connection is over."""
    connection = await ImapConnection.connect(imap_server.account())
    imap_server.script("EXAMINE", Fault.DROP)
    for _ in range(2):
        with pytest.raises(ImapLostError):
            await connection.examine("INBOX")
    connection.close()


async def test_a_search_that_names_more_than_it_was_asked_for(
    post: ImapPost, imap_server: ScriptedImap
) -> None:
    """A UID from beyond what was asked for does not carry the cursor past mail that comes later."""
    imap_server.adds_uid = 500
    assert await post.once() == 0
    imap_server.put(mail(4))
    assert await post.once() == 0
    assert post.posted() == ["Mail 1", "Mail 2", "Mail 3", "Mail 4"]
