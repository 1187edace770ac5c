"""What `muster mail` and `muster mail check` are told, read into the plugin's settings.

A server is an address: `imaps://ada@mail.example.org` (TLS), `imap://…` (STARTTLS), or on this
machine alone `imap+plain://…`; the same with smtp. The user stands in it with every character that
is not plain spelled %40; the password never does, for every user of the machine sees arguments.
"""

import ssl
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import attrs
import click

from muster.commands.tokens import DEFAULT_URL, PLUGIN, bad_setting, read_secret, read_token

if TYPE_CHECKING:
    from muster.clients.mail.reading import Reading
    from muster.clients.mail.settings import Incoming, Login, MailServer, Outgoing, Since
    from muster.clients.mail.verify.resolver import Resolver

F = TypeVar("F", bound=Callable[..., Any])

IMAP_PASSWORD = "MUSTER_MAIL_IMAP_PASSWORD"  # noqa: S105 - the name of a setting
SMTP_PASSWORD = "MUSTER_MAIL_SMTP_PASSWORD"  # noqa: S105 - the name of a setting
_PORTS = {
    "imaps": 993, "imap": 143, "imap+plain": 143, "smtps": 465, "smtp": 587, "smtp+plain": 25
}  # fmt: skip

_OPTIONS = (
    click.option("--maildir", type=click.Path(path_type=Path), help="Read this Maildir."),
    click.option("--imap", metavar="URL", help="Read this account: imaps://user@host."),
    click.option("--folder", "folders", multiple=True, metavar="NAME", help="Of IMAP [INBOX]."),
    click.option(
        "--since", metavar="DATE", help="Of IMAP: also what came before now (2026-01-31, or all)."
    ),
    click.option("--outbox", type=click.Path(path_type=Path), help="Write replies to a Maildir."),
    click.option("--smtp", metavar="URL", help="Send replies: smtps://user@host, smtp://…"),
    click.option("--from", "sender_address", help="The replies' address [where the mail arrived]."),
    click.option("--ca-file", type=click.Path(path_type=Path), help="Whom to trust beside TLS's."),
    click.option(
        "--authserv-id",
        "authserv_ids",
        multiple=True,
        metavar="ID",
        help="Believe this name's DMARC results, topmost Authentication-Results.",
    ),
    click.option("--dns", metavar="HOST:PORT", help="Ask this server for DKIM keys."),
    click.option("--no-dns", is_flag=True, help="Look up no DKIM keys."),
    click.option("--trim-quotes", is_flag=True, help="Leave quoted history out of messages."),
    click.option("--url", help=f"Where muster is [MUSTER_URL, else {DEFAULT_URL}]."),
    click.option("--token-file", type=click.Path(path_type=Path), help="Holds the plugin's token."),
    click.option("--state", type=click.Path(path_type=Path), help="The plugin's own folder."),
)


@attrs.frozen(kw_only=True)
class MailOptions:
    """The options as they were given."""

    maildir: Path | None
    imap: str | None
    folders: tuple[str, ...]
    since: str | None
    outbox: Path | None
    smtp: str | None
    sender_address: str | None
    ca_file: Path | None
    authserv_ids: tuple[str, ...]
    dns: str | None
    no_dns: bool
    trim_quotes: bool
    url: str | None
    token_file: Path | None
    state: Path | None


def mail_options(command: F) -> F:
    """Add the options; they arrive as the fields of MailOptions."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@attrs.frozen(kw_only=True)
class MailPlan:
    """What the plugin is to do."""

    url: str
    token: str = attrs.field(repr=False)
    incoming: "Incoming"
    outgoing: "Outgoing"
    resolver: "Resolver | None"
    reading: "Reading"
    state_folder: Path
    sender_address: str | None


def read_plan(options: MailOptions, environ: Mapping[str, str]) -> MailPlan:
    """Read the options; UsageError for what does not go together, Invalid for a bad setting."""
    from muster.clients.mail.reading import Reading
    from muster.clients.mail.verify import Verifier

    _refuse_combinations(options)
    url = options.url or environ.get("MUSTER_URL") or DEFAULT_URL
    try:
        resolver = _resolver(options)
        incoming = _incoming(options, environ)
        outgoing = _outgoing(options, environ)
        sender_address = _sender_address(options)
    except ValueError as error:
        raise bad_setting(str(error), None) from error
    return MailPlan(
        url=url,
        token=read_token(PLUGIN, options.token_file, environ),
        incoming=incoming,
        outgoing=outgoing,
        resolver=resolver,
        reading=Reading(
            verify=Verifier(authserv_ids=options.authserv_ids, resolver=resolver),
            trim_quotes=options.trim_quotes,
        ),
        state_folder=options.state or _default_folder(environ, url, incoming),
        sender_address=sender_address,
    )


def _sender_address(options: MailOptions) -> str | None:
    from muster.clients.mail.addresses import usable_address

    if options.sender_address is None:
        return None
    address = usable_address(options.sender_address)
    if address is None:
        raise ValueError("--from is not an address like ada@example.org")
    return address


def _default_folder(environ: Mapping[str, str], url: str, incoming: "Incoming") -> Path:
    from muster.clients.mail.settings import FromImap
    from muster.clients.state_folder import default_folder

    if isinstance(incoming, FromImap):
        source = f"imap {incoming.server.identity()}"
    else:
        source = str(incoming.folder.resolve())
    return default_folder(environ, "mail", url=url, whose=source)


def _refuse_combinations(options: MailOptions) -> None:
    if (options.maildir is None) == (options.imap is None):
        raise click.UsageError("say where mail comes from: --maildir FOLDER or --imap URL")
    if (options.outbox is None) == (options.smtp is None):
        raise click.UsageError("say where replies go: --outbox FOLDER or --smtp URL")
    if options.imap is None and (options.folders or options.since):
        raise click.UsageError("--folder and --since are for --imap")
    if options.imap is None and options.smtp is None and options.ca_file:
        raise click.UsageError("--ca-file is for --imap and --smtp")
    if options.no_dns and options.dns:
        raise click.UsageError("--dns and --no-dns exclude each other")


def _incoming(options: MailOptions, environ: Mapping[str, str]) -> "Incoming":
    from muster.clients.mail.settings import FromImap, FromMaildir

    if options.imap is None:
        assert options.maildir is not None
        return FromMaildir(folder=options.maildir)
    server = read_server(
        options.imap, "imap", tls=_tls(options), password=read_secret(IMAP_PASSWORD, environ)
    )
    return FromImap(
        server=server, folders=options.folders or ("INBOX",), since=_since(options.since)
    )


def _outgoing(options: MailOptions, environ: Mapping[str, str]) -> "Outgoing":
    from muster.clients.mail.settings import ToMaildir, ToSmtp

    if options.smtp is None:
        assert options.outbox is not None
        return ToMaildir(folder=options.outbox)
    password = read_secret(SMTP_PASSWORD, environ)
    return ToSmtp(server=read_server(options.smtp, "smtp", tls=_tls(options), password=password))


def read_server(
    url: str, protocol: str, *, tls: ssl.SSLContext | None, password: str | None
) -> "MailServer":
    """A server as its address names it; ValueError, which never quotes a password, else."""
    from muster.clients.mail.settings import MailServer, Security
    from muster.clients.urls import read_url

    securities = {
        f"{protocol}s": Security.TLS,
        protocol: Security.STARTTLS,
        f"{protocol}+plain": Security.NONE,
    }
    like = f"an address like {protocol}s://user@mail.example.org"
    parts = read_url(url, securities)
    if parts is None or parts.hostname is None:
        raise ValueError(f"--{protocol} is not {like}")
    if parts.password is not None:
        name = IMAP_PASSWORD if protocol == "imap" else SMTP_PASSWORD
        raise ValueError(f"--{protocol} must hold no password: set {name} or {name}_FILE")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"--{protocol} is more than {like}")
    return MailServer(
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        security=securities[parts.scheme],
        login=_login(parts.username, password, protocol),
        tls=tls,
    )


def _login(user: str | None, password: str | None, protocol: str) -> "Login | None":
    from muster.clients.mail.settings import Login

    if user is None:
        return None
    if password is None:
        name = IMAP_PASSWORD if protocol == "imap" else SMTP_PASSWORD
        raise ValueError(f"no password for {unquote(user)}: set {name} or {name}_FILE")
    return Login(user=unquote(user), password=password)


def _tls(options: MailOptions) -> ssl.SSLContext | None:
    if options.ca_file is None:
        return None
    try:
        context = ssl.create_default_context()
        context.load_verify_locations(cafile=options.ca_file)
    except ssl.SSLError as error:
        raise ValueError(f"--ca-file {options.ca_file} holds no certificate") from error
    except OSError as error:
        from muster.clients.reasons import why_unread

        raise ValueError(f"cannot read --ca-file {options.ca_file}: {why_unread(error)}") from error
    return context


def _since(text: str | None) -> "Since":
    from muster.clients.mail.settings import EVERYTHING

    if text is None:
        return None
    if text == EVERYTHING:
        return EVERYTHING
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError("--since is neither a date like 2026-01-31 nor all") from error


def _resolver(options: MailOptions) -> "Resolver | None":
    from muster.clients.mail.verify.resolver import resolver_at, system_resolver

    if options.no_dns:
        return None
    return resolver_at(options.dns) if options.dns else system_resolver()
