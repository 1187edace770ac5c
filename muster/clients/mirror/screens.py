"""Whether a screen shows that a paste arrived in the prompt line of Claude Code.

It shows the text itself there, or `[Pasted text #2 +40 lines]` for a long one. A permission prompt
takes the place of the prompt line, and swallows what is pasted. So what a screen did not show
before and shows now is a sign that no such prompt stood there; that there is none says nothing,
for a screen may cut a text or draw it in another way.
"""

import re
from typing import Final

PART_CHARACTERS: Final = 12

_FOLDED: Final = re.compile(r"\[Pastedtext[^\]]{1,40}\]")


def shows_paste(text: str, *, before: str, after: str) -> bool:
    """Whether `after` shows more of the text than `before`; white space does not count."""
    wanted, was, there = ("".join(each.split()) for each in (text, before, after))
    if set(_FOLDED.findall(there)) - set(_FOLDED.findall(was)):
        return True
    parts = {wanted[:PART_CHARACTERS], wanted[-PART_CHARACTERS:]} - {""}
    return any(there.count(part) > was.count(part) for part in parts)
