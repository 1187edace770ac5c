"""Bytes of a mail to text that the contract takes, whatever the sender claims they are.

A charset's name is written by the sender, so it may be unknown, a codec that is no charset
(`zlib`), one that always fails (`undefined`) or one that is slow on purpose (`punycode`). No
function here raises. Rejected: `email.policy.default`, whose header parser raises on mail that
exists (a bracket in a Message-ID, a line break in an encoded word).
"""

import binascii
import codecs
import re
import unicodedata

REPLACEMENT = "\ufffd"

# What mail calls by the left name is in practice the right one, which has more characters.
SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "iso2022_jp": "iso2022_jp_ext",
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
}
# No charsets, though Python decodes text with them; the first two take quadratic time.
NOT_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"})

ENCODED_WORD = re.compile(r"=\?([^?\s]{1,80})\?([bBqQ])\?([^?]*)\?=")
LINE_BREAKS_AND_TABS = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+[ ]*")


def decode_text(raw: bytes, label: str | None) -> tuple[str, bool]:
    """The text of `raw` by the charset `label`, and whether it was read without a doubt.

    Tried in order: the label, UTF-8 (which other charsets hardly ever look like), and then the
    label (or Windows-1252) with U+FFFD for what it has no character for.
    """
    codec = _codec(label) if label else None
    for name in (codec, "utf-8"):
        if name is not None:
            try:
                return raw.decode(SUPERSETS.get(name, name)), True
            except ValueError:
                continue
    try:
        text = raw.decode(SUPERSETS.get(codec or "", codec or "cp1252"), "replace")
    except (ValueError, LookupError):
        text = raw.decode("latin-1")
    return text, False


def _codec(label: str) -> str | None:
    """Python's name for a charset, None when it has none that decodes text."""
    try:
        info = codecs.lookup(label.strip())
        # The public way to ask whether a codec is one between bytes and text: use it.
        b"".decode(info.name)
    except (LookupError, ValueError):
        return None
    return None if info.name.replace("_", "-") in NOT_CHARSETS else info.name


def decode_header(value: str) -> str:
    """A header's value as one line of readable text: unfolded, its encoded words decoded.

    `value` is as the parser keeps it: raw 8-bit bytes are surrogates. An encoded word that can't
    be decoded stays as it is written. Bytes of neighbouring words are joined before they are
    decoded, since senders cut characters in two.
    """
    text = raw_text(value)
    pieces: list[str] = []
    pending = b""
    pending_label: str | None = None
    position = 0
    for match in ENCODED_WORD.finditer(text):
        label = match[1].partition("*")[0].lower()
        decoded = _encoded_bytes(match[2], match[3])
        between = text[position : match.start()]
        if decoded is None:
            continue
        # White space between two encoded words is no text (RFC 2047 section 6.2).
        joins = pending_label is not None and not between.strip()
        if not (joins and label == pending_label):
            pieces.append(decode_text(pending, pending_label)[0])
            pending = b""
        if not joins:
            pieces.append(between)
        pending += decoded
        pending_label = label
        position = match.end()
    pieces.extend((decode_text(pending, pending_label)[0], text[position:]))
    return clean_line("".join(pieces))


def raw_text(value: str) -> str:
    """A raw header's text with its 8-bit bytes read as UTF-8, else as Windows-1252."""
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except ValueError:
        return raw.decode("cp1252", "replace")


def _encoded_bytes(encoding: str, text: str) -> bytes | None:
    try:
        raw = text.encode("ascii")
        if encoding in "qQ":
            return binascii.a2b_qp(raw, header=True)
        # Padding is what senders forget; too much of it does no harm.
        return binascii.a2b_base64(raw + b"===")
    except ValueError:
        return None


def clean_line(text: str) -> str:
    """One line without controls: breaks and tabs become a space, other controls U+FFFD."""
    return _without_controls(LINE_BREAKS_AND_TABS.sub(" ", text), keep="").strip()


def clean_text(text: str) -> str:
    """Text with LF line ends and no control but LF and tab: others become U+FFFD."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    return _without_controls(lines.removeprefix("\ufeff"), keep="\n\t")


def _without_controls(text: str, *, keep: str) -> str:
    if text.isprintable():
        return text
    bad = {
        character
        for character in set(text)
        if character not in keep and unicodedata.category(character) in ("Cc", "Cs")
    }
    return text.translate({ord(character): REPLACEMENT for character in bad})
