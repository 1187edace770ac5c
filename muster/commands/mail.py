"""`muster mail`: bring mail to muster and send the approved replies; `check` tells what works."""

import functools
import math
import os
from typing import Any

import click

from muster.commands.exits import Exit, as_sentence
from muster.commands.mail_options import MailOptions, mail_options, read_plan
from muster.commands.options import json_option
from muster.commands.output import print_json, shown
from muster.commands.tokens import bad_setting
from muster.errors import (
    Conflict,
    Invalid,
    MusterError,
    TooMany,
    Unauthorized,
    Unavailable,
)

TRY_LATER_SECONDS = 60
_COLOURS = {"well": "green", "warning": "yellow", "fault": "red"}


@click.group("mail", invoke_without_command=True)
@mail_options
@click.option("--once", is_flag=True, help="Do what there is to do, then end.")
@click.pass_context
def mail(ctx: click.Context, /, *, once: bool, **given: Any) -> int | None:
    """Run the mail plugin: mail in, approved replies out, each of them once.

    Mail is read from a Maildir (only its `new` and `cur`) or from folders of an IMAP account, and
    nothing in either is changed. Of an account the mail that arrives from now on is read; --since
    asks for older mail. Replies are written to an outbox, a Maildir that is made when it is
    missing, or handed to an SMTP server. imaps:// and smtps:// mean TLS, imap:// and smtp://
    STARTTLS; imap+plain:// and smtp+plain:// are for a server on this machine. Passwords are read
    from MUSTER_MAIL_IMAP_PASSWORD and MUSTER_MAIL_SMTP_PASSWORD, or the files that the same names
    with _FILE say.

    A sender counts as verified with a DKIM signature aligned with the From domain, or with a DMARC
    pass in the topmost Authentication-Results of --authserv-id, and never in doubt.

    The token is read from --token-file, MUSTER_PLUGIN_TOKEN or MUSTER_PLUGIN_TOKEN_FILE. What was
    posted and sent is remembered in --state, one folder a server (a folder of its own under
    XDG_STATE_HOME otherwise). Exits 1 when --once could not bring every mail, 5 when the token is
    refused, 6 when muster can't be reached, 7 when another process runs on the folder, 75 when
    --once would have to wait.
    """
    if ctx.invoked_subcommand is not None:
        if once or any(given.values()):
            called = f"{ctx.command_path} {ctx.invoked_subcommand}"
            raise click.UsageError(
                f"write the options after {ctx.invoked_subcommand}: {called} --imap …"
            )
        return None
    plan = read_plan(MailOptions(**given), os.environ)

    # Here and below: what is heavy is imported only once it is needed.
    import trio

    from muster.clients.mail.program import mail_until_stopped, run_mail

    run = functools.partial(
        run_mail,
        url=plan.url,
        token=plan.token,
        incoming=plan.incoming,
        outgoing=plan.outgoing,
        reading=plan.reading,
        state_folder=plan.state_folder,
        sender_address=plan.sender_address,
        once=once,
    )
    ending = trio.run(mail_until_stopped, run)
    if isinstance(ending, int):
        return Exit.FAILED if ending else Exit.OK
    raise _told(ending) from ending


@mail.command("check")
@mail_options
@json_option
def check(*, as_json: bool, **given: Any) -> int:
    """Tell what works, with the same options: mail in, replies out, DNS, muster and the token.

    Nothing is read, posted or sent. Exits 1 when something does not work.
    """
    plan = read_plan(MailOptions(**given), os.environ)

    import trio

    from muster.clients.mail.check import check_mail
    from muster.clients.mail.findings import Verdict

    run = functools.partial(
        check_mail,
        url=plan.url,
        token=plan.token,
        incoming=plan.incoming,
        outgoing=plan.outgoing,
        resolver=plan.resolver,
        sender_address=plan.sender_address,
    )
    found = trio.run(run)
    if as_json:
        print_json(
            [
                {"subject": one.subject, "verdict": one.verdict.value, "sentence": one.sentence}
                for one in found
            ]
        )
    else:
        for one in found:
            verdict = click.style(f"{one.verdict.value:<7}", fg=_COLOURS[one.verdict.value])
            click.echo(f"{verdict}  {one.subject:<7}  {shown(one.sentence)}")
    return Exit.FAILED if any(one.verdict is Verdict.FAULT for one in found) else Exit.OK


def _told(error: Exception) -> MusterError:
    """What the plugin's end means on the command line."""
    from muster.clients import plugin

    sentence = as_sentence(str(error))
    match error:
        case plugin.NotSignedInError():
            return Unauthorized(sentence)
        case plugin.StateFolderBusyError():
            return Conflict(sentence)
        case plugin.TryLaterError():
            asked = error.retry_after_seconds or TRY_LATER_SECONDS
            return TooMany(sentence, retry_after_seconds=math.ceil(asked))
        case plugin.PluginsOffError():
            return TooMany(sentence, retry_after_seconds=TRY_LATER_SECONDS)
        case plugin.UnreachableError() | plugin.ClaimLostError():
            return Unavailable(sentence)
        case ValueError():
            return bad_setting(sentence, None)
        case NotADirectoryError():
            return Invalid(sentence, field="maildir")
        case _:
            return MusterError(sentence)
