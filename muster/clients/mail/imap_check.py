"""What `muster mail check` tells of an IMAP account; nothing in it is changed or read."""

import trio

from muster.clients.mail.findings import Finding, fault, warning, well
from muster.clients.mail.imap import ImapConnection, ImapError, ImapNoError
from muster.clients.mail.imap_sentences import tell_missing, tell_trouble
from muster.clients.mail.settings import FromImap, MailServer

CHECK_SECONDS = 30.0
SUBJECT = "imap"


async def check_imap(incoming: FromImap) -> list[Finding]:
    """Connect, log in, look at each folder, and leave; at most 30 s.

    A finding is a fault when something does not work; nothing is raised.
    """
    findings: list[Finding] = []
    with trio.move_on_after(CHECK_SECONDS) as scope:
        try:
            connection = await ImapConnection.connect(incoming.server)
            try:
                await _look(incoming, connection, findings)
            finally:
                connection.close()
        except ImapError as error:
            findings.append(fault(SUBJECT, tell_trouble(incoming.server, error)))
    if scope.cancelled_caught:
        late = f"the account {incoming.server.shown()} took longer than {CHECK_SECONDS:.0f} s"
        findings.append(fault(SUBJECT, late))
    return findings


async def _look(incoming: FromImap, connection: ImapConnection, findings: list[Finding]) -> None:
    server = incoming.server
    secured = "without TLS, on this machine"
    if connection.tls_version is not None:
        secured = f"over {connection.tls_version}, with a certificate that is good"
    findings.append(well(SUBJECT, f"the account {server.shown()} takes the login, {secured}"))
    for name in incoming.folders:
        await _look_at_folder(server, name, connection, findings)
    if connection.can_idle:
        findings.append(well(SUBJECT, "It tells of new mail by itself (IDLE)"))
    else:
        late = f"new mail is seen within {incoming.poll_seconds:.0f} s"
        findings.append(warning(SUBJECT, f"The server has no IDLE: {late}"))


async def _look_at_folder(
    server: MailServer, name: str, connection: ImapConnection, findings: list[Finding]
) -> None:
    try:
        found = await connection.examine(name)
    except ImapNoError as error:
        names = await connection.folder_names()
        sentence = tell_missing(server, name, names)
        if name in names:
            sentence = f"The folder {name} can't be opened: {error}"
        findings.append(fault(SUBJECT, sentence))
    else:
        findings.append(well(SUBJECT, f"The folder {name} holds {found.count:,} mails"))
