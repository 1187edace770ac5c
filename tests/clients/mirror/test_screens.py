"""Signs on a screen that a paste arrived."""

import pytest

from muster.clients.mirror.screens import shows_paste

EMPTY = "* idle\n\n>\n"


@pytest.mark.parametrize(
    ("text", "before", "after", "shown"),
    [
        ("hello", EMPTY, "* idle\n\n> hello\n", True),
        ("hello", EMPTY, EMPTY, False),
        ("hello", EMPTY, "Do you want to proceed?  1. Yes  2. No\n", False),
        ("hello", "> hello\n>\n", "> hello\n> hello\n", True),
        ("hello", "> hello\n>\n", "> hello\n>\n", False),
        ("one\n\ttwo three four five", EMPTY, "│ > one     │\n│     two   │\n", False),
        ("one\n\ttwo three four five", EMPTY, "│ > one\n  two three four\n", True),
        ("a long beginning\nand its very end", EMPTY, "│ …\n│ and its very end\n", True),
        ("long " * 900, EMPTY, "> [Pasted text #1 +40 lines]\n", True),
        ("long " * 900, "> [Pasted text #1]\n", "> [Pasted text #1]\n", False),
        ("long " * 900, "> [Pasted text #1]\n", "> [Pasted text #1][Pasted text #2]\n", True),
        ("", EMPTY, EMPTY, False),
    ],
)
def test_a_sign_is_what_was_not_there_before(
    text: str, before: str, after: str, shown: bool
) -> None:
    """The text's beginning or end, or a note of a folded paste, once more than before."""
    assert shows_paste(text, before=before, after=after) is shown
