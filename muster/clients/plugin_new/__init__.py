"""`muster plugin new`: a working plugin on the SDK, whose upstream is two folders.

What is written lies beside this file as text, since a file that ends in .py would be taken for a
module of muster's. tests/clients/test_plugin_new.py runs it.
"""

from importlib import resources
from pathlib import Path

FILES = ("plugin.py", "README.md", "test_plugin.py")
NAME_FIELD = "{name}"
LABEL_FIELD = "{label}"


class TakenError(Exception):
    """There is something in the folder's place already."""


def write_plugin(name: str, folder: Path) -> list[Path]:
    """Write a new plugin into `folder`, which is made; the files that were written.

    Raises TakenError when there is something at `folder` already, OSError when it can't be made.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise TakenError(f"{folder} is there already; nothing was written") from error
    written = []
    for file_name in FILES:
        path = folder / file_name
        path.write_text(filled(file_name, name), encoding="utf-8")
        written.append(path)
    return written


def filled(file_name: str, name: str) -> str:
    """The text of one file for a plugin of this name."""
    template = resources.files(__name__).joinpath("template", f"{file_name}.txt")
    text = template.read_text(encoding="utf-8")
    return text.replace(NAME_FIELD, name).replace(LABEL_FIELD, name.capitalize())
