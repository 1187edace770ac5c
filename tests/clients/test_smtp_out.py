"""Replies handed to an SMTP server that others wrote: what arrives, and what is refused."""

import email
import email.policy
import ssl
from pathlib import Path

import attrs
import pytest

from muster.clients.mail.settings import Login, MailServer, Security
from muster.clients.plugin import SendFailedError, SendLaterError
from tests.support.aiosmtp import Took, aiosmtp
from tests.support.certificate import make_certificate
from tests.support.scripted_smtp import scripted_smtp
from tests.support.smtp_sink import approved, smtp_sink

IN_BASE64 = "AGFkYUBob21lLnRlc3QAw7ZmZm5lIGRpY2gsIFNlc2Ft"
LOGIN = Login(user="ada@home.test", password="öffne dich, Sesam")


async def test_a_reply_arrives_as_it_was_approved(tmp_path: Path) -> None:
    """The mail reaches its recipients whole; its Message-ID and the server's answer are told."""
    body = ".\n..two dots\nnormal\n.\nüml\n"
    to = ("bo@in.test", "cy@in.test")
    async with aiosmtp() as took, smtp_sink(tmp_path, took.as_seen(), to=to) as sink:
        sent = await sink.send(approved(body))
    [mail] = took.mails
    assert (mail.sender, mail.recipients) == ("ada@home.test", to)
    read = email.message_from_bytes(mail.content, policy=email.policy.default)
    assert isinstance(read, email.message.EmailMessage)
    assert read["Message-ID"] == sent.external_ref
    assert sent.detail == "250 2.0.0 OK: taken as 1"
    assert read.get_content().replace("\r\n", "\n") == body
    assert read["In-Reply-To"] == "<m1@in.test>"
    assert mail.content.count(b"\n") == mail.content.count(b"\r\n")


async def test_dots_at_the_start_of_a_line_survive(tmp_path: Path) -> None:
    """A line of one dot does not end the mail, in a text that needs no encoding."""
    body = ".\n..\n.x\nend\n.\n"
    async with aiosmtp() as took, smtp_sink(tmp_path, took.as_seen()) as sink:
        await sink.send(approved(body))
    assert took.mails[0].content.endswith(b"\r\n\r\n.\r\n..\r\n.x\r\nend\r\n.\r\n")


@pytest.mark.parametrize("is_implicit", [True, False])
async def test_tls_and_login(tmp_path: Path, *, is_implicit: bool) -> None:
    """With TLS from the start, and by STARTTLS, user and password in UTF-8 are taken."""
    made = make_certificate()
    security = Security.TLS if is_implicit else Security.STARTTLS
    async with aiosmtp(login=LOGIN, tls=made.server_context(), is_implicit=is_implicit) as took:
        server = took.as_seen(security, trust=made.client_context())
        async with smtp_sink(tmp_path, server) as sink:
            await sink.send(approved())
            assert len(took.mails) == 1
        wrong = attrs.evolve(server, login=attrs.evolve(LOGIN, password="wrong-secret"))
        async with smtp_sink(tmp_path, wrong) as sink:
            with pytest.raises(SendFailedError, match="did not take the login: 535") as caught:
                await sink.send(approved())
            assert "wrong-secret" not in str(caught.value)
            assert "wrong-secret" not in repr(sink)
        assert len(took.mails) == 1


@pytest.mark.parametrize("security", [Security.TLS, Security.STARTTLS])
async def test_a_certificate_that_is_not_trusted(tmp_path: Path, security: Security) -> None:
    """A server whose certificate nobody vouches for gets no login and no mail."""
    tls = make_certificate().server_context()
    implicit = security is Security.TLS
    async with scripted_smtp() as server:
        server.tls, server.implicit_tls, server.login = tls, implicit, LOGIN
        server.features = ["STARTTLS", "AUTH PLAIN"]
        seen = server.as_seen(security, trust=ssl.create_default_context())
        async with smtp_sink(tmp_path, seen) as sink:
            with pytest.raises(SendFailedError, match=r"certificate of 127\.0\.0\.1 is not"):
                await sink.send(approved())
        assert server.moments["AUTH"] == server.moments["MAIL"] == 0


async def test_a_certificate_of_another_host(tmp_path: Path) -> None:
    """A certificate that is trusted, but for another name, is not taken."""
    made = make_certificate()
    async with scripted_smtp(host="127.0.0.2") as server:
        server.tls, server.implicit_tls = made.server_context(), True
        async with smtp_sink(
            tmp_path, server.as_seen(Security.TLS, trust=made.client_context())
        ) as sink:
            with pytest.raises(SendFailedError, match=r"127\.0\.0\.2 is not to be trusted: IP"):
                await sink.send(approved())


async def test_starttls_that_was_stripped(tmp_path: Path) -> None:
    """Where STARTTLS is asked for and not offered, nothing is sent in the clear."""
    async with scripted_smtp() as server:
        server.login = LOGIN
        server.features = ["AUTH PLAIN LOGIN"]
        async with smtp_sink(tmp_path, server.as_seen(Security.STARTTLS)) as sink:
            with pytest.raises(SendFailedError, match="offers no STARTTLS"):
                await sink.send(approved())
        assert [line.split(" ")[0] for line in server.heard] == ["EHLO", "QUIT"]


async def test_words_that_were_put_in_front_of_tls(tmp_path: Path) -> None:
    """What came in the clear behind the go-ahead for TLS is not believed to be the server's."""
    made = make_certificate()
    async with scripted_smtp() as server:
        server.tls = made.server_context()
        server.features = ["STARTTLS"]
        server.script("STARTTLS", "220 go\r\n250-mail.test\r\n250 AUTH PLAIN")
        seen = server.as_seen(Security.STARTTLS, trust=made.client_context())
        async with smtp_sink(tmp_path, seen) as sink:
            with pytest.raises(SendLaterError, match="spoke on before TLS"):
                await sink.send(approved())


async def test_what_was_offered_before_tls_is_forgotten(tmp_path: Path) -> None:
    """The server is greeted anew under TLS, and only what it offers there counts."""
    made = make_certificate()
    async with scripted_smtp() as server:
        server.tls = made.server_context()
        server.script("EHLO", "250-mail.test\r\n250-STARTTLS\r\n250 SIZE 10")
        server.features = []
        seen = server.as_seen(Security.STARTTLS, trust=made.client_context())
        async with smtp_sink(tmp_path, seen) as sink:
            await sink.send(approved())
        assert server.moments["EHLO"] == 2
        assert "MAIL FROM:<ada@home.test>" in server.heard


def test_a_password_needs_tls() -> None:
    """A login without TLS is refused before anything is sent, but on this machine itself."""
    for host in ("mail.test", "192.0.2.7", "localhost.mail.test"):
        with pytest.raises(ValueError, match="only with TLS"):
            MailServer(host=host, port=25, security=Security.NONE, login=LOGIN)
    for host in ("localhost", "127.0.0.1", "::1", "127.8.8.8"):
        server = MailServer(host=host, port=25, security=Security.NONE, login=LOGIN)
        assert LOGIN.password not in repr(server)
        assert LOGIN.password not in server.shown()


@pytest.mark.parametrize("features", ["AUTH LOGIN", "AUTH=LOGIN", "AUTH LOGIN CRAM-MD5"])
async def test_login_by_two_questions(tmp_path: Path, features: str) -> None:
    """A server that knows only AUTH LOGIN is answered its two questions."""
    async with scripted_smtp() as server:
        server.login = LOGIN
        server.features = [features]
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            await sink.send(approved())
        assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ("454 4.7.0 not now", SendLaterError, "did not take the login: 454 4.7.0 not now"),
        ("535 5.7.8 no", SendFailedError, "did not take the login: 535 5.7.8 no"),
        ("535 you said öffne dich, Sesam", SendFailedError, "with the password itself"),
        (f"535 {IN_BASE64}", SendFailedError, "with the password itself"),
        ("öffne dich, Sesam", SendLaterError, "no SMTP"),
    ],
)
async def test_a_login_that_is_refused(
    tmp_path: Path, answer: str, error: type[Exception], says: str
) -> None:
    """A refused login is told with the server's words, unless they are the password."""
    async with scripted_smtp() as server:
        server.login = LOGIN
        server.features = ["AUTH PLAIN"]
        server.script("AUTH", answer)
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            with pytest.raises(error, match=says) as caught:
                await sink.send(approved())
        seen: BaseException | None = caught.value
        while seen is not None:
            assert LOGIN.password not in str(seen)
            assert IN_BASE64 not in str(seen)
            seen = seen.__cause__ or seen.__context__


async def test_a_login_that_is_not_offered(tmp_path: Path) -> None:
    """Where no login that we know is offered, the reply fails and says what is."""
    async with scripted_smtp() as server:
        server.login = LOGIN
        server.features = ["AUTH GSSAPI NTLM"]
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            with pytest.raises(SendFailedError, match="it offers GSSAPI, NTLM"):
                await sink.send(approved())


async def refusal(took: Took, folder: Path, *, to: tuple[str, ...], body: str = "Hello.") -> str:
    """Send and fail; the sentence."""
    async with smtp_sink(folder, took.as_seen(), to=to) as sink:
        with pytest.raises(SendFailedError) as caught:
            await sink.send(approved(body))
    return str(caught.value)


async def test_a_recipient_that_is_refused_ends_it_for_all(tmp_path: Path) -> None:
    """Nobody gets a reply of which one recipient is refused, and the answer is told."""
    to = ("bo@in.test", "gone@in.test", "late@in.test")
    async with aiosmtp() as took:
        took.refused = {"gone@in.test": "550 5.1.1 unknown", "late@in.test": "450 4.2.0 greylisted"}
        told = await refusal(took, tmp_path, to=to)
        assert "the recipient gone@in.test: 550 5.1.1 unknown" in told
        assert "the recipient late@in.test: 450 4.2.0 greylisted" in told
        assert (took.mails, took.resets) == ([], 1)


async def test_a_recipient_that_is_put_off(tmp_path: Path) -> None:
    """A recipient who may be taken later is tried again, and nobody gets it before."""
    to = ("bo@in.test", "late@in.test")
    async with aiosmtp() as took, smtp_sink(tmp_path, took.as_seen(), to=to) as sink:
        took.refused = {"late@in.test": "450 4.2.0 greylisted"}
        with pytest.raises(SendLaterError, match=r"late@in\.test: 450 4\.2\.0 grey"):
            await sink.send(approved())
        assert took.mails == []
        took.refused.clear()
        await sink.send(approved())
        assert [mail.recipients for mail in took.mails] == [to]


async def test_a_reply_that_is_too_large(tmp_path: Path) -> None:
    """A reply over the size that the server names is not begun."""
    async with aiosmtp(data_size_limit=20_000) as took:
        told = await refusal(took, tmp_path, to=("bo@in.test",), body="y\n" * 9000)
        assert "takes 20000 at most" in told
    async with scripted_smtp() as server:
        server.features = ["SIZE 0"]
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            await sink.send(approved("y\n" * 9000))
        assert server.heard[1] == f"MAIL FROM:<ada@home.test> SIZE={len(server.mails[0])}"


async def test_an_address_outside_ascii(tmp_path: Path) -> None:
    """It is sent as such where the server offers it, and fails with a sentence where not."""
    to = ("jürgen@in.test",)
    async with aiosmtp(enable_SMTPUTF8=True) as took:
        async with smtp_sink(tmp_path, took.as_seen(), to=to) as sink:
            await sink.send(approved())
        [mail] = took.mails
        assert mail.recipients == to
        assert {"SMTPUTF8", "BODY=8BITMIME"} <= set(mail.options)
        assert "To: jürgen@in.test\r\n".encode() in mail.content
    async with aiosmtp(enable_SMTPUTF8=False) as took:
        assert "offers no SMTPUTF8" in await refusal(took, tmp_path, to=to)
        async with smtp_sink(tmp_path / "other", took.as_seen()) as sink:
            await sink.send(approved())
        assert not {"SMTPUTF8", "BODY=8BITMIME"} & set(took.mails[0].options)
