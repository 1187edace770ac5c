"""Reads a plugin turn's text back into its fields (plugins: "Delivery to your chief").

muster puts what it says itself at the start of a line and every line of the message behind `| `,
split at every line break there is, so that no text of a sender can stand where muster's words
stand. What is read here is therefore: muster's own lines, and the fenced ones.

A sender can hold line breaks and spell anything, so within the fence only one thing is sure:
muster's mark is there when the sender is unproven. A message that shows the mark anywhere is
unverified: a sender can at most take away from their own standing, never add to it.
"""

import re

import attrs

UNVERIFIED = "(UNVERIFIED:"
NO_SENDER = "(no sender given)"
NO_SUBJECT = "(none)"
_HEAD = re.compile(r"\[message_id (?P<id>\d{1,18})\] from (?P<rest>.*)")
_NO_REPLY = re.compile(r"no reply\b.*\bis possible", re.IGNORECASE)
_NAME = re.compile(r"""\s*"?(?P<name>[^"<>]*?)"?\s*<(?P<address>[^<>]*)>""")


@attrs.frozen(kw_only=True)
class Message:
    """What a turn says about the message in it; `verified` is muster's word, not the sender's."""

    message_id: int
    sender: str
    verified: bool
    no_reply: bool
    subject: str
    body: str

    @property
    def sender_name(self) -> str:
        """What to call the sender: the name before the address, else the address's first part."""
        found = _NAME.match(self.sender)
        if found and found["name"]:
            return found["name"]
        return (found["address"] if found else self.sender).partition("@")[0].strip()


def read(text: str) -> Message | None:
    """Take a turn's text apart; None when it holds no fenced message."""
    lines = text.split("\n")
    own = [line for line in lines if not line.startswith("|")]
    fenced = [line[1:].removeprefix(" ") for line in lines if line.startswith("|")]
    head = _HEAD.match(fenced[0]) if fenced else None
    if head is None:
        return None
    sender = head["rest"].rpartition(" · received ")[0] or head["rest"]
    sender = sender.rpartition(UNVERIFIED)[0] if UNVERIFIED in sender else sender
    subject, body = _subject_and_body(fenced[1:])
    return Message(
        message_id=int(head["id"]),
        sender="" if sender.strip() == NO_SENDER else sender.strip(),
        verified=not any(UNVERIFIED in line for line in fenced),
        no_reply=any(_NO_REPLY.match(line) for line in own),
        subject="" if subject == NO_SUBJECT else subject,
        body=body,
    )


def _subject_and_body(lines: list[str]) -> tuple[str, str]:
    subject = ""
    if lines and lines[0].startswith("subject: "):
        subject = lines[0].removeprefix("subject: ")
        lines = lines[1:]
    return subject, "\n".join(lines).strip("\n")
