"""The mail plugin with a mail server for its replies, end to end and killed in mid-sending."""

import hashlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.mail.maildir import make_outbox
from tests.support.scripted_server import ScriptedServer, scripted_server
from tests.support.scripted_smtp import DOT, TEXT, Fault, ScriptedSmtp, scripted_smtp
from tests.support.smtp_child import main
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
MAIL = b"From: Bo <bo@in.test>\nTo: ada@home.test\nSubject: Hi\nMessage-ID: <m1@in.test>\n\nHello\n"
EXTERNAL_ID = hashlib.sha256(MAIL).hexdigest()


@attrs.define(kw_only=True)
class Desk:
    """A Maildir with one mail, the muster that it goes to, and the server of the replies."""

    folder: Path
    muster: ScriptedServer
    smtp: ScriptedSmtp

    async def once(self) -> None:
        """Run the plugin until there is nothing to do."""
        with trio.fail_after(60):
            await main(self.muster.url, str(self.folder), str(self.smtp.port), once=True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Process]:
        """Run it in a process of its own; it is killed at the end of the block."""
        process = await trio.lowlevel.open_process(
            [
                *(sys.executable, "-m", "tests.support.smtp_child"),
                *(self.muster.url, str(self.folder), str(self.smtp.port)),
            ],
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Yield a desk whose plugin has brought its mail, and has a reply to send."""
    make_outbox(tmp_path / "in", maildir=None)
    (tmp_path / "in" / "new" / "1").write_bytes(MAIL)
    async with scripted_server() as muster, scripted_smtp() as smtp:
        desk = Desk(folder=tmp_path, muster=muster, smtp=smtp)
        await desk.once()
        muster.approve(17, EXTERNAL_ID, "Hello Bo.")
        yield desk


@pytest.mark.rule(7, 100)
async def test_a_reply_goes_to_the_mail_server(desk: Desk) -> None:
    """An approved reply is sent once, and its result has the server's answer."""
    await desk.once()
    await desk.once()
    [mail] = desk.smtp.mails
    assert b"To: bo@in.test\r\n" in mail
    assert b"\r\nIn-Reply-To: <m1@in.test>\r\n" in mail
    result = desk.muster.results[17]
    assert (result["ok"], result["detail"]) == (True, "250 2.0.0 Ok: queued as Q1")
    assert result["external_ref"].encode() in mail


async def test_a_server_that_is_busy_for_a_moment(desk: Desk) -> None:
    """A passing refusal is not reported: the reply is sent a moment later, once."""
    desk.smtp.script("MAIL", "451 4.3.0 busy")
    desk.smtp.script(DOT, "452 4.3.1 no space now")
    await desk.once()
    assert len(desk.smtp.mails) == 1
    assert desk.muster.results[17]["ok"] is True
    assert desk.smtp.moments["MAIL"] == 3


async def test_a_reply_that_is_refused(desk: Desk) -> None:
    """A refused recipient is reported with the server's words, and nothing is sent."""
    desk.smtp.script("RCPT", "550 5.1.1 no such mailbox")
    await desk.once()
    result = desk.muster.results[17]
    assert result["ok"] is False
    assert result["detail"].endswith("the recipient bo@in.test: 550 5.1.1 no such mailbox")
    assert desk.smtp.moments["DATA"] == 0


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize("moment", [TEXT, DOT])
async def test_a_lost_answer_is_never_sent_again(
    desk: Desk, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """A line that is dropped after the text began leaves the reply unknown, for ever."""
    desk.smtp.script(moment, Fault.RESET)
    await desk.once()
    await desk.once()
    assert desk.smtp.moments["DATA"] == 1
    assert desk.muster.results == {}
    assert "unconfirmed" in capsys.readouterr().err


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize("moment", [TEXT, DOT])
async def test_killed_after_the_text_began(
    desk: Desk, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """A plugin killed with a text on its way does not send it again, and reports no guess."""
    desk.smtp.script(moment, Fault.SILENT)
    async with desk.running() as process:
        await until(lambda: desk.smtp.moments[moment], 30)
        process.kill()
        await process.wait()
    await desk.once()
    assert desk.smtp.moments["DATA"] == 1
    assert desk.muster.results == {}
    assert "unconfirmed" in capsys.readouterr().err


@pytest.mark.rule(98, 99)
async def test_stopped_before_the_text(desk: Desk) -> None:
    """A plugin that a signal stops before the text has the reply sent by its next start."""
    desk.smtp.script("RCPT", Fault.SILENT)

    async def run_until_stopped() -> None:
        await main(desk.muster.url, str(desk.folder), str(desk.smtp.port))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_stopped)
        await until(lambda: desk.smtp.moments["RCPT"], 30)
        nursery.cancel_scope.cancel()
    assert desk.muster.results == {}
    await desk.once()
    assert len(desk.smtp.mails) == 1
    assert desk.muster.results[17]["ok"] is True
