"""What a person is told of an IMAP account, in one place for the plugin and its check."""

from collections.abc import Sequence
from urllib.parse import quote

from muster.clients.mail.imap import ImapCertificateError, ImapError, ImapLoginError
from muster.clients.mail.settings import MailServer

NAMES_TOLD_MAX = 20


def tell_trouble(server: MailServer, error: ImapError) -> str:
    """Why an account can't be read."""
    match error:
        case ImapLoginError():
            return f"the account {server.shown()} refuses the login: {error}"
        case ImapCertificateError():
            return f"the certificate of {server.host} is not trusted (see --ca-file): {error}"
        case _:
            return f"the account {server.shown()} can't be read: {error}"


def tell_missing(server: MailServer, folder: str, names: Sequence[str]) -> str:
    """That an account has no such folder, and which ones it has."""
    told = ", ".join(sorted(names)[:NAMES_TOLD_MAX])
    more = f" and {len(names) - NAMES_TOLD_MAX} more" if len(names) > NAMES_TOLD_MAX else ""
    return f"the account {server.shown()} has no folder {folder!r}; it has {told}{more}"


def mail_place(server: MailServer, folder: str, uid: int) -> str:
    """Where one mail lies, as a URL (RFC 5092)."""
    assert server.login is not None, "the settings ask for one"
    user = quote(server.login.user, safe="")
    return f"imap://{user}@{server.host}/{quote(folder, safe='/')};UID={uid}"
