"""What `muster mail check` says of an IMAP account."""

import attrs
import pytest
import trio

from muster.clients.mail import imap, imap_check
from muster.clients.mail.findings import Finding, Verdict
from muster.clients.mail.imap_check import check_imap
from muster.clients.mail.settings import FromImap, Login, MailServer, Security
from tests.support.dovecot import PASSWORD, running_dovecot
from tests.support.imap_post import mail
from tests.support.scripted_imap import Fault, scripted_imap


def told(findings: list[Finding]) -> list[tuple[Verdict, str]]:
    """What is said, all of it of IMAP."""
    assert {finding.subject for finding in findings} == {"imap"}
    return [(finding.verdict, finding.sentence) for finding in findings]


async def test_an_account_that_works_but_for_a_folder() -> None:
    """Login, TLS, each folder and IDLE are told, and the mails stay unread."""
    async with running_dovecot() as dovecot:
        await trio.to_thread.run_sync(dovecot.append, "ada", mail(1), mail(2))
        server = MailServer(
            host="127.0.0.1",
            port=dovecot.tls_port,
            security=Security.TLS,
            login=Login(user="ada", password=PASSWORD),
            tls=dovecot.tls(),
        )
        findings = await check_imap(FromImap(server=server, folders=("INBOX", "Lits")))
        flags = await trio.to_thread.run_sync(dovecot.flags, "ada")
        wrong = attrs.evolve(server, login=Login(user="ada", password="hush"))
        refused = await check_imap(FromImap(server=wrong))
        doubted = await check_imap(FromImap(server=attrs.evolve(server, tls=None)))
    shown = server.shown()
    assert told(findings) == [
        (
            Verdict.WELL,
            f"The account {shown} takes the login, over TLSv1.3, with a certificate that is good.",
        ),
        (Verdict.WELL, "The folder INBOX holds 2 mails."),
        (Verdict.FAULT, f"The account {shown} has no folder 'Lits'; it has INBOX."),
        (Verdict.WELL, "It tells of new mail by itself (IDLE)."),
    ]
    assert flags == {1: (), 2: ()}
    [(verdict, sentence)] = told(refused)
    assert verdict is Verdict.FAULT
    assert "refuses the login" in sentence
    assert "hush" not in sentence
    [(verdict, sentence)] = told(doubted)
    assert (verdict, "is not trusted" in sentence) == (Verdict.FAULT, True)


async def test_a_server_without_idle_works() -> None:
    """Without IDLE everything works and may surprise, which is a warning with the time."""
    async with scripted_imap() as server:
        server.capabilities = "IMAP4rev1 AUTH=PLAIN"
        findings = await check_imap(FromImap(server=server.account(), poll_seconds=90))
    assert told(findings)[-1] == (
        Verdict.WARNING,
        "The server has no IDLE: new mail is seen within 90 s.",
    )


async def test_a_port_that_does_not_begin_with_tls() -> None:
    """imaps:// at a port of plain text is told with the scheme to try."""
    async with scripted_imap() as server:
        account = attrs.evolve(server.account(), security=Security.TLS)
        [(verdict, sentence)] = told(await check_imap(FromImap(server=account)))
    assert verdict is Verdict.FAULT
    assert sentence.endswith("this port does not begin with TLS: try imap:// (STARTTLS).")


@pytest.mark.parametrize("security", [Security.NONE, Security.STARTTLS])
async def test_a_port_that_says_nothing(
    security: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without a greeting may be one that waits for TLS, which is told."""
    monkeypatch.setattr(imap, "GREETING_SECONDS", 0.3)
    async with scripted_imap() as server:
        server.script("GREETING", Fault.SILENCE)
        account = attrs.evolve(server.account(), security=security)
        [(verdict, sentence)] = told(await check_imap(FromImap(server=account)))
    assert verdict is Verdict.FAULT
    assert sentence.endswith(
        "it said nothing for 0.3 s; a port that begins with TLS wants imaps://."
    )


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.SILENCE])
async def test_a_server_in_trouble(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs up or says nothing is one fault, and nothing is raised."""
    monkeypatch.setattr(imap_check, "CHECK_SECONDS", 0.5)
    async with scripted_imap() as server:
        server.script("GREETING", fault)
        [(verdict, sentence)] = told(await check_imap(FromImap(server=server.account())))
    assert verdict is Verdict.FAULT
    assert sentence.startswith(f"The account {server.account().shown()}")
