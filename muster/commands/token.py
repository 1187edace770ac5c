"""`muster token`: a person's own tokens, for programs that act as them."""

from typing import TYPE_CHECKING

import click

from muster.commands.next_step import to_type
from muster.commands.options import json_option, owner_option
from muster.commands.output import local, print_json, print_table, utc
from muster.commands.session import in_store

if TYPE_CHECKING:
    from muster.credentials.rules import PersonalToken


@click.group()
def token() -> None:
    """Add, list and revoke the tokens of people."""


@token.command()
@owner_option
@click.option(
    "--kind",
    type=click.Choice(["personal", "mirror"]),
    default="personal",
    show_default=True,
    help="mirror: of a machine that runs `muster mirror`. Plugins and agents get theirs elsewhere.",
)
@click.option("--name", required=True, help="What it is called in lists: a-z, digits, hyphens.")
@click.option(
    "--scope",
    type=click.Choice(["read", "write"]),
    default="write",
    show_default=True,
    help="Whether it may change things.",
)
@click.option("--expires", metavar="DURATION", help="When it ends, such as 30d; else when revoked.")
@json_option
def add(
    owner: str | None, kind: str, name: str, scope: str, expires: str | None, *, as_json: bool
) -> None:
    """Make a token and print it, this once. muster keeps only its sha256."""
    from muster.credentials.operations.personal import add_personal
    from muster.credentials.rules import AddPersonal, Scope

    if kind == "mirror":
        if scope != "write" or expires is not None:
            raise click.UsageError("A mirror host's token has no scope and no end.")
        _add_host(owner, name, as_json=as_json)
        return
    seconds = None if expires is None else _read_duration(expires)
    command = AddPersonal(name=name, scope=Scope(scope), expires_seconds=seconds)
    added, text = in_store(lambda store: store.run_as(owner, add_personal, command))
    if as_json:
        print_json({"token": text, **_document(added)})
        return
    click.echo(text)
    click.echo(f"This is the token {added.name}. It is shown this once; keep it safe.", err=True)


def _add_host(owner: str | None, name: str, *, as_json: bool) -> None:
    from muster.mirror.operations.hosts import add_host
    from muster.mirror.rules import AddHost

    host, text = in_store(lambda store: store.run_as(owner, add_host, AddHost(name=name)))
    if as_json:
        print_json(
            {
                "token": text,
                "host_id": host.id,
                "name": host.name,
                "created_at": utc(host.created_at),
            }
        )
        return
    click.echo(text)
    click.echo(f"This is the token of the host {host.name}. It is shown this once.", err=True)


@token.command("list")
@owner_option
@click.option("--all", "ended_too", is_flag=True, help="The revoked ones too.")
@json_option
def list_(owner: str | None, *, ended_too: bool, as_json: bool) -> None:
    """List tokens: what each may do, when it was last used, when it ends."""
    from muster.credentials.operations.personal import list_personal
    from muster.credentials.rules import ListPersonal

    command = ListPersonal(ended_too=ended_too)
    found = in_store(lambda store: store.run_as(owner, list_personal, command))
    if as_json:
        print_json([_document(one) for one in found])
        return
    print_table(
        ("ID", "Name", "Scope", "Since", "Last used", "Ends", "State"),
        [
            (
                str(one.id),
                one.name,
                one.scope.value,
                local(one.created_at),
                local(one.last_seen_at),
                local(one.expires_at),
                "live" if one.revoked_at is None else f"revoked {local(one.revoked_at)}",
            )
            for one in found
        ],
        empty="There is no token yet: "
        + to_type("token", "add", "--kind", "personal", "--name", "NAME"),
    )


@token.command()
@click.argument("name")
@owner_option
@json_option
def revoke(name: str, owner: str | None, *, as_json: bool) -> None:
    """End the token NAME, for good; the name is free again."""
    from muster.credentials.operations.personal import revoke_personal
    from muster.credentials.rules import RevokePersonal

    command = RevokePersonal(name=name)
    ended = in_store(lambda store: store.run_as(owner, revoke_personal, command))
    if as_json:
        print_json(_document(ended))
        return
    click.echo(f"The token {ended.name} is revoked; it opens no door any more.", err=True)


def _read_duration(text: str) -> int:
    from muster.config import duration_seconds
    from muster.credentials.rules import EXPIRY_SECONDS_MAX

    try:
        return duration_seconds(text, least=1, most=EXPIRY_SECONDS_MAX)
    except ValueError as error:
        raise click.UsageError(f"--expires {error}.") from None


def _document(one: "PersonalToken") -> dict[str, object]:
    return {
        "token_id": one.id,
        "name": one.name,
        "scope": one.scope.value,
        "created_at": utc(one.created_at),
        "expires_at": utc(one.expires_at),
        "last_seen_at": utc(one.last_seen_at),
        "revoked_at": utc(one.revoked_at),
    }
