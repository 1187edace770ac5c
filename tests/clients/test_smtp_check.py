"""What `muster mail check` tells of the server that replies go to."""

import ssl

import attrs
import pytest

from muster.clients.mail import smtp, smtp_check
from muster.clients.mail.findings import Finding, Verdict
from muster.clients.mail.settings import Login, MailServer, Security, ToSmtp
from muster.clients.mail.smtp_check import check_smtp
from tests.support.aiosmtp import aiosmtp
from tests.support.certificate import make_certificate
from tests.support.postfix import running_postfix
from tests.support.scripted_smtp import Fault, scripted_smtp

LOGIN = Login(user="ada@home.test", password="öffne-dich")


async def told(server: MailServer) -> list[Finding]:
    """The findings on a server."""
    findings = await check_smtp(ToSmtp(server=server))
    assert all(finding.subject == "smtp" for finding in findings)
    assert not any(LOGIN.password in finding.sentence for finding in findings)
    return findings


@pytest.mark.parametrize("is_implicit", [True, False])
async def test_a_server_where_all_works(*, is_implicit: bool) -> None:
    """Each thing that works is told, and nothing is sent."""
    made = make_certificate()
    security = Security.TLS if is_implicit else Security.STARTTLS
    async with aiosmtp(login=LOGIN, tls=made.server_context(), is_implicit=is_implicit) as took:
        findings = await told(took.as_seen(security, trust=made.client_context()))
        assert {finding.verdict for finding in findings} == {Verdict.WELL}
        sentences = " ".join(finding.sentence for finding in findings)
        for part in ("answers", "TLS", "33554432 bytes a mail", "login of ada@home.test works"):
            assert part in sentences
        assert took.mails == []


async def test_a_login_that_does_not_work() -> None:
    """A refused login is a fault, with what the server said."""
    made = make_certificate()
    async with aiosmtp(login=LOGIN, tls=made.server_context()) as took:
        server = took.as_seen(Security.STARTTLS, trust=made.client_context())
        wrong = attrs.evolve(server, login=attrs.evolve(LOGIN, password="wrong"))
        last = (await told(wrong))[-1]
        assert last.verdict is Verdict.FAULT
        assert "did not take the login: 535" in last.sentence


async def test_a_certificate_that_is_not_trusted() -> None:
    """A certificate that nobody vouches for is a fault, before any login."""
    async with scripted_smtp() as server:
        server.tls, server.implicit_tls = make_certificate().server_context(), True
        findings = await told(server.as_seen(Security.TLS, trust=ssl.create_default_context()))
        assert [finding.verdict for finding in findings] == [Verdict.FAULT]
        assert "is not to be trusted" in findings[0].sentence


@pytest.mark.parametrize("trusts", [True, False])
async def test_a_port_that_does_not_begin_with_tls(*, trusts: bool) -> None:
    """smtps:// at a port of plain text is told with the scheme to try."""
    trust = make_certificate().client_context() if trusts else None
    async with scripted_smtp() as server:
        seen = server.as_seen(Security.TLS, trust=trust)
        assert [(finding.verdict, finding.sentence) for finding in await told(seen)] == [
            (
                Verdict.FAULT,
                f"The port of {seen.place()} does not begin with TLS: try smtp:// (STARTTLS).",
            )
        ]


@pytest.mark.parametrize("security", [Security.NONE, Security.STARTTLS])
async def test_a_port_that_begins_with_tls(
    security: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    """smtp:// at a port that waits for TLS is told that it says nothing, and what may be why."""
    monkeypatch.setattr(smtp, "GREETING_SECONDS", 0.3)
    async with scripted_smtp() as server:
        server.tls, server.implicit_tls = make_certificate().server_context(), True
        [finding] = await told(server.as_seen(security))
        assert finding.verdict is Verdict.FAULT
        assert "said nothing for 0.3 s." in finding.sentence
        assert finding.sentence.endswith("A port that begins with TLS wants smtps://.")


async def test_a_tls_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing once TLS has begun is not told to begin with it."""
    monkeypatch.setattr(smtp, "GREETING_SECONDS", 0.3)
    made = make_certificate()
    async with scripted_smtp() as server:
        server.tls, server.implicit_tls = made.server_context(), True
        server.script("greeting", Fault.SILENT)
        [finding] = await told(server.as_seen(Security.TLS, trust=made.client_context()))
        assert finding.sentence.endswith("said nothing for 0.3 s.")


async def test_what_surprises_is_a_warning() -> None:
    """No TLS and no SMTPUTF8 are told as warnings."""
    async with scripted_smtp() as server:
        server.features = []
        findings = await told(server.as_seen())
        warnings = [finding.sentence for finding in findings if finding.verdict is Verdict.WARNING]
        assert len(warnings) == 2
        assert warnings[0].startswith("Without TLS")
        assert "SMTPUTF8" in warnings[1]
        assert server.heard[-1] == "QUIT"


async def test_nobody_listens() -> None:
    """A port where nobody listens is one fault."""
    async with scripted_smtp() as server:
        seen = server.as_seen()
    findings = await told(seen)
    assert [finding.verdict for finding in findings] == [Verdict.FAULT]
    assert "No connection" in findings[0].sentence


async def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check ends after its time, with what it found until then and a fault."""
    monkeypatch.setattr(smtp_check, "CHECK_SECONDS", 0.3)
    async with scripted_smtp() as server:
        server.script("EHLO", Fault.SILENT)
        findings = await told(server.as_seen())
        assert findings[-1].verdict is Verdict.FAULT
        assert "took longer" in findings[-1].sentence


async def test_a_real_postfix() -> None:
    """Postfix with STARTTLS works, and its limit is told."""
    async with running_postfix() as postfix:
        findings = await told(postfix.as_seen(Security.STARTTLS))
        assert {finding.verdict for finding in findings} == {Verdict.WELL}
        assert any("50000 bytes a mail" in finding.sentence for finding in findings)
