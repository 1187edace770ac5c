"""The body of a message to muster: what went wrong first, then the text, then the attachments.

muster refuses what is over 16 KiB and cuts nothing (plugins: "an inbound message"), so a longer
mail opens with one line that says how long it is, how much follows and where the whole lies. The
attachments keep their place at the end. All of it is the sender's word to muster: a sender can
write lines that look like ours, but none before ours.
"""

from collections.abc import Sequence

from muster.clients.mail.parts import Attachment

BODY_BYTES_MAX = 16 * 1024
ATTACHMENTS_SHOWN_MAX = 20
# With a place of 1,000 characters these leave room for some text, whatever a sender invents.
OPENING_BYTES_MAX = 6 * 1024
CLOSING_BYTES_MAX = 4 * 1024
EMPTY_BODY = "(This mail has no text.)"


def assemble(
    *, notes: Sequence[str], text: str, attachments: Sequence[Attachment], place: str
) -> str:
    """A body of 1 byte to 16 KiB of UTF-8, in which nothing was left out in silence.

    `place` says where the whole mail lies.
    """
    opening = "\n".join(notes)
    if size(opening) > OPENING_BYTES_MAX:
        opening = cut(opening, OPENING_BYTES_MAX) + "…"
    closing = _closing(attachments)
    text = text.strip("\n") if text.strip() else EMPTY_BODY
    whole = _joined(opening, text, closing)
    if size(whole) <= BODY_BYTES_MAX:
        return whole
    text_size = size(text)
    # The line's own length hangs on the number in it: reserve it with the longer number.
    reserved = size(_joined(_too_long(text_size, text_size, place), opening, "", closing)) + 8
    kept = cut(text, BODY_BYTES_MAX - reserved)
    line = _too_long(text_size, size(kept), place)
    body = _joined(line, opening, kept, closing)
    assert size(body) <= BODY_BYTES_MAX, "the reserve covers everything but the text"
    return body


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode("utf-8"))


def cut(text: str, bytes_max: int) -> str:
    """The beginning of `text` within `bytes_max` bytes, whole characters only."""
    return text.encode("utf-8")[: max(bytes_max, 0)].decode("utf-8", "ignore")


def _too_long(text_bytes: int, kept_bytes: int, place: str) -> str:
    return (
        f"[This mail's text is {text_bytes:,} bytes long; its first {kept_bytes:,} bytes follow; "
        f"the whole mail lies at {place}]"
    )


def _closing(attachments: Sequence[Attachment]) -> str:
    lines = [attachment.shown() for attachment in attachments[:ATTACHMENTS_SHOWN_MAX]]
    if len(attachments) > ATTACHMENTS_SHOWN_MAX:
        lines.append(f"[and {len(attachments) - ATTACHMENTS_SHOWN_MAX} more attachments]")
    closing = "\n".join(lines)
    if size(closing) <= CLOSING_BYTES_MAX:
        return closing
    count = len(attachments)
    return f"{cut(closing, CLOSING_BYTES_MAX)}…\n[{count} attachments; not every name fits here]"


def _joined(*blocks: str) -> str:
    return "\n\n".join(block for block in blocks if block)
