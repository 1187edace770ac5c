"""Where a page may lead on to: a path of this muster's, whatever an address or a form says."""

from typing import Final

_CHARACTERS_MAX: Final = 2000


def own_path(text: str, default: str = "/") -> str:
    r"""The path and query in `text`, if it is one of ours; else the default.

    A browser reads `//host`, `/\host` and a path with a tab or a newline in it as another site's.
    """
    plain = text.isascii() and text.isprintable() and "\\" not in text and " " not in text
    if not plain or not text.startswith("/") or text.startswith("//") or "#" in text:
        return default
    return text if len(text) <= _CHARACTERS_MAX else default
