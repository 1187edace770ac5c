"""What `muster mail check` tells of the server that replies go to; nothing is sent."""

import trio

from muster.clients.mail.findings import Finding, fault, warning, well
from muster.clients.mail.settings import Security, ToSmtp
from muster.clients.mail.smtp import Session, open_session, size_of
from muster.clients.mail.smtp_line import CertificateError, TroubleError
from muster.clients.plugin import SendFailedError, SendLaterError

CHECK_SECONDS = 30.0
SUBJECT = "smtp"


async def check_smtp(outgoing: ToSmtp) -> list[Finding]:
    """Connect, begin TLS, read what the server offers, log in, and leave; at most 30 s.

    The last finding is a fault when something does not work; nothing is raised.
    """
    findings: list[Finding] = []
    with trio.move_on_after(CHECK_SECONDS) as scope:
        try:
            await _look(outgoing, findings)
        except (TroubleError, CertificateError, SendFailedError, SendLaterError) as error:
            findings.append(fault(SUBJECT, str(error)))
    if scope.cancelled_caught:
        late = f"The mail server {outgoing.server.place()} took longer than {CHECK_SECONDS:.0f} s."
        findings.append(fault(SUBJECT, late))
    return findings


async def _look(outgoing: ToSmtp, findings: list[Finding]) -> None:
    server = outgoing.server
    session = await open_session(server)
    try:
        findings.append(well(SUBJECT, f"The mail server {server.place()} answers."))
        match server.security:
            case Security.TLS:
                findings.append(well(SUBJECT, "TLS from the start; its certificate is good."))
            case Security.STARTTLS:
                version = await session.secure()
                sentence = f"STARTTLS gives {version}; its certificate is good."
                findings.append(well(SUBJECT, sentence))
            case Security.NONE:
                sentence = "Without TLS: whoever is on the way reads the replies."
                findings.append(warning(SUBJECT, sentence))
        findings.extend(_facts(session))
        if server.login is None:
            findings.append(well(SUBJECT, "No login, as no user is set."))
        else:
            await session.log_in(server.login)
            findings.append(well(SUBJECT, f"The login of {server.login.user} works."))
    finally:
        await session.goodbye()


def _facts(session: Session) -> list[Finding]:
    size_bytes_max = size_of(session.features)
    limit = f"{size_bytes_max} bytes a mail" if size_bytes_max else "mails of any size it names"
    told = [well(SUBJECT, f"It takes {limit}.")]
    if not {"smtputf8", "8bitmime"} <= session.features.keys():
        sentence = "It offers no SMTPUTF8: replies to addresses outside ASCII will fail."
        told.append(warning(SUBJECT, sentence))
    return told
