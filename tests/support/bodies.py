"""Texts that are hard to type into a terminal, and what of them a session may get."""

BODIES = {
    "ends a paste": "one \x1b[201~; rm -rf ~\r two \x1b[200~ three",
    "tabs and lines": "a\tb\r\nc\n\n\td\r\n",
    "16 KiB": "".join(f"{i:07d} " + "x" * 55 + "\n" for i in range(256)),
    "wide": "日本語 🧑\u200d🚀 e\u0301 ÿ \u202e \U0001f9ea|\u3000|",
    "controls": "a\x00b\x07c\x08d\x7fe\x9bf\x03g\x1bh\x0c",
    "tmux words": "#{pane_id} #(touch x) %% ; \\; ~ $HOME `id` -t C-c Enter",
}


def as_typed(text: str) -> str:
    """What of a text a terminal may get."""
    text = text.replace("\r\n", "\n")
    return "".join(c for c in text if c in "\n\t" or not (c < " " or "\x7f" <= c <= "\x9f"))
