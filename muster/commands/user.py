"""`muster user`: the people whose desks these are."""

import os
import sys

import click

from muster.commands.next_step import to_type
from muster.commands.options import json_option
from muster.commands.output import local, print_json, print_table, utc
from muster.commands.session import Store, in_store, no_account
from muster.errors import Invalid

PASSWORD_BYTES_MAX = 8192


@click.group()
def user() -> None:
    """Add, list, disable and enable accounts, and give them a way in."""


@user.command()
@click.argument("name")
@click.option("--email", required=True, help="An address, such as ada@example.test.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--link", "by_link", is_flag=True, help="No password: print an address to choose at.")
@json_option
def add(name: str, email: str, *, password_stdin: bool, by_link: bool, as_json: bool) -> None:
    """Open an account named NAME: small letters a-z, digits and hyphens.

    The password, of 8 to 1024 characters, is asked for, or read as the first line of standard
    input with --password-stdin; it is never an argument. With --link there is none, and the
    address that is printed lets NAME choose a password or a passkey, once, within 15 minutes.
    """
    from muster.accounts.operations import add_user, next_user_id
    from muster.accounts.operations.links import make_link
    from muster.accounts.passwords import hash_password
    from muster.accounts.rules import AddUser, User, check
    from muster.principals import Owner, System

    check(AddUser(name=name, email=email, password_hash=""))
    if by_link and password_stdin:
        raise click.UsageError("--link and --password-stdin exclude each other.")
    password = None if by_link else _read_password() if password_stdin else _ask_password()

    async def work(store: Store) -> tuple[User, str | None]:
        password_hash = None if password is None else await hash_password(password)
        command = AddUser(name=name, email=email, password_hash=password_hash)
        async with store.db.transaction(System()) as tx:
            owner = Owner(owner_id=await next_user_id(tx), via="cli")
        added = await store.db.run(owner, add_user, command)
        made = await store.db.run(owner, make_link, None) if by_link else None
        return added, None if made is None else made.text

    added, link_text = in_store(work)
    url = None if link_text is None else _setup_url(link_text)
    if as_json:
        print_json(
            {
                "user_id": added.id,
                "name": added.name,
                "email": added.email,
                "created_at": utc(added.created_at),
            }
            | ({} if url is None else {"url": url})
        )
        return
    if url is not None:
        click.echo(url)
    click.echo(f"{added.name} has an account now. Next, give it a chief and a plugin:", err=True)
    whose = ("--owner", added.name)
    for words in (
        ("agent", "add", "helper", *whose, "--chief"),
        ("plugin", "add", "mail", *whose, "--label", "Mail", "--scope", "mail"),
    ):
        click.echo(f"  {to_type(*words)}", err=True)


@user.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the accounts by name."""
    from muster.accounts.operations import list_users
    from muster.accounts.rules import ListUsers
    from muster.principals import System

    users = in_store(lambda store: store.db.run(System(), list_users, ListUsers()))
    if as_json:
        print_json(
            [
                {
                    "user_id": found.id,
                    "name": found.name,
                    "email": found.email,
                    "created_at": utc(found.created_at),
                    "disabled_at": utc(found.disabled_at),
                }
                for found in users
            ]
        )
        return
    print_table(
        ("ID", "Name", "Email", "Since", "State"),
        [
            (
                str(found.id),
                found.name,
                found.email or "-",
                local(found.created_at),
                "live" if found.disabled_at is None else f"disabled {local(found.disabled_at)}",
            )
            for found in users
        ],
        empty=no_account(),
    )


@user.command()
@click.argument("name")
@json_option
def link(name: str, *, as_json: bool) -> None:
    """Print an address by which NAME sets a password or a passkey, once, within 15 minutes.

    An earlier one of theirs is over. For somebody who is new here, or has no way in any more.
    """
    from muster.accounts.operations.links import NewLink, make_link

    async def work(store: Store) -> NewLink:
        return await store.run_as(name, make_link, None)

    made = in_store(work)
    url = _setup_url(made.text)
    if as_json:
        print_json({"url": url, "expires_at": utc(made.expires_at)})
        return
    click.echo(url)
    click.echo(f"This is for {name}, once, until {local(made.expires_at)}.", err=True)


@user.command()
@click.argument("name")
@json_option
def disable(name: str, *, as_json: bool) -> None:
    """Shut every door to the tokens and sessions of NAME, at once; nothing is deleted."""
    from muster.accounts.operations import disable_user
    from muster.accounts.rules import Disable

    changed = in_store(lambda store: store.run_as(name, disable_user, Disable()))
    if as_json:
        print_json({"user_id": changed.id, "disabled_at": utc(changed.disabled_at)})
        return
    undo = to_type("user", "enable", changed.name)
    click.echo(f"{changed.name} is disabled; this undoes it:\n  {undo}", err=True)


@user.command()
@click.argument("name")
@json_option
def enable(name: str, *, as_json: bool) -> None:
    """Open the doors again, to the same tokens as before."""
    from muster.accounts.operations import enable_user
    from muster.accounts.rules import Enable

    changed = in_store(lambda store: store.run_as(name, enable_user, Enable()))
    if as_json:
        print_json({"user_id": changed.id, "disabled_at": None})
        return
    click.echo(f"{changed.name} is enabled.", err=True)


def _setup_url(link_text: str) -> str:
    from muster.config import Config

    return f"{Config.from_environ(os.environ).public_url}/setup?link={link_text}"


def _read_password() -> str:
    line = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX)
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Invalid("The password is not valid UTF-8.", field="password") from None


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask for a password: use --password-stdin.")
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return password
