"""Replies handed to a real postfix: what arrives, and what it says."""

import email
import email.policy
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.clients.mail.settings import Security
from muster.clients.plugin import SendFailedError, SendLaterError
from tests.support.postfix import Postfix, running_postfix
from tests.support.smtp_sink import approved, smtp_sink
from tests.support.waiting import until


@pytest.fixture
async def postfix() -> AsyncIterator[Postfix]:
    """Yield a postfix that runs."""
    async with running_postfix() as postfix:
        yield postfix


async def test_a_reply_arrives(tmp_path: Path, postfix: Postfix) -> None:
    """What postfix delivers is the approved text, and its answer is told as it gave it.

    In the clear, with STARTTLS and with TLS from the start.
    """
    body = ".\nIch komme gern: Grüße!\n..\n"
    sent: dict[Security, str] = {}
    for number, security in enumerate(Security):
        async with smtp_sink(tmp_path / security.value, postfix.as_seen(security)) as sink:
            told = await sink.send(approved(body, draft_id=number))
        assert told.detail.startswith("250 2.0.0 Ok: queued as ")
        sent[security] = told.external_ref
    await until(lambda: len(postfix.arrived()) == len(sent), 20)
    read = [email.message_from_bytes(raw, policy=email.policy.default) for raw in postfix.arrived()]
    for security, reference in sent.items():
        [mail] = [each for each in read if each["Message-ID"] == reference]
        assert isinstance(mail, email.message.EmailMessage)
        assert mail.get_content().replace("\r\n", "\n") == body
        assert ("ESMTPS" in mail["Received"]) is (security is not Security.NONE)


async def test_what_postfix_refuses(tmp_path: Path, postfix: Postfix) -> None:
    """An unknown recipient, one that is put off, and a reply that is too large go nowhere."""
    to = ("bo@in.test", "nobody@in.test")
    server = postfix.as_seen(Security.STARTTLS)
    async with smtp_sink(tmp_path, server, to=to) as sink:
        with pytest.raises(SendFailedError, match=r"nobody@in\.test: 550 5\.1\.1 .*no such mailb"):
            await sink.send(approved())
    async with smtp_sink(tmp_path / "late", server, to=("late@in.test",)) as sink:
        with pytest.raises(SendLaterError, match=r"450 4\.2\.0 .*greylisted"):
            await sink.send(approved())
    async with smtp_sink(tmp_path / "large", server) as sink:
        with pytest.raises(SendFailedError, match="takes 50000 at most"):
            await sink.send(approved("0123456789\n" * 6000))
        # The last of them shows that postfix had the time to deliver the others.
        await sink.send(approved())
    await until(postfix.arrived, 20)
    assert len(postfix.arrived()) == 1


async def test_a_postfix_that_is_down_for_a_while(tmp_path: Path, postfix: Postfix) -> None:
    """While it is down a reply may be sent soon; when it is back, it is sent."""
    async with smtp_sink(tmp_path, postfix.as_seen(Security.NONE)) as sink:
        await postfix.kill()
        with pytest.raises(SendLaterError, match="refused"):
            await sink.send(approved())
        await postfix.start()
        await sink.send(approved())
    await until(postfix.arrived, 20)
    assert len(postfix.arrived()) == 1
