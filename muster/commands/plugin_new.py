"""`muster plugin new`: begin a plugin of one's own."""

from pathlib import Path

import click

from muster.commands.next_step import to_type
from muster.commands.options import json_option
from muster.commands.output import print_json
from muster.errors import Conflict


@click.command("new")
@click.argument("name")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), help="The folder to make [./NAME]."
)
@json_option
def new(name: str, folder: Path | None, *, as_json: bool) -> None:
    """Write a working plugin named NAME: plugin.py on muster's SDK, a README and a test.

    Nothing is overwritten: a folder that is there already is exit 7.
    """
    from muster.clients.plugin_new import TakenError, write_plugin
    from muster.names import check_name

    check_name(name, field="name")
    place = folder or Path(name)
    try:
        written = write_plugin(name, place)
    except TakenError as error:
        raise Conflict(f"{error}.", code="folder_taken") from error
    except OSError as error:
        raise click.ClickException(f"cannot write {place}: {error.strerror}") from error
    if as_json:
        print_json({"name": name, "files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(str(path))
    step = to_type("plugin", "add", name, "--label", name.capitalize(), "--scope", name)
    click.echo(f"Register it: {step}. {place / 'README.md'} tells the rest.", err=True)
