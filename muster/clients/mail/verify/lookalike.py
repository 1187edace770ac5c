"""Display names that pass for an address, or for somebody else's.

A proof is one of the address; the name is whatever the sender wrote. Decided here, for names after
their encoded words are decoded:
- an at sign, or what looks like one, is in doubt, unless the name has the very address behind it;
- so is a domain of another organisation than the address's, also one in other alphabets;
- so are angle brackets and their look-alikes, which draw a second address beside the real one;
- so is what is not seen or turns the text around, what could not be decoded, and a word of
  letters from several alphabets that resemble each other.
A name in one alphabet that happens to look like another person's is nobody's forgery to prove.
"""

import re
from collections.abc import Iterator

import unicodedata2

from muster.clients.mail.verify.alignment import (
    ascii_domain,
    ends_in_listed_suffix,
    organisational_domain,
)

AT_SIGNS = frozenset("@\uff20\ufe6b\u24b6\u24d0\U0001f150\U0001f170")
ANGLES = frozenset(
    "<>\u02c2\u02c3\u1438\u1433\u2039\u203a\u2329\u232a\u276c\u276d\u276e\u276f\u2770\u2771"
    "\u27e8\u27e9\u3008\u3009\ufe64\ufe65\uff1c\uff1e"
)
DOTS = dict.fromkeys(
    map(ord, "\u00b7\u0701\u2024\u2027\u2219\u22c5\u3002\u30fb\ua4f8\uff0e\uff61"), "."
)
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
ALPHABETS = frozenset({"LATIN", "CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU"})
HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+")
LETTERS = re.compile(r"[^\W\d_]+")
# No suffixes of the public list, and names that people know all the same.
INNER_SUFFIXES = frozenset(
    {"test", "local", "localhost", "internal", "intranet", "lan", "corp", "home", "example",
     "invalid", "onion"}
)  # fmt: skip


def name_doubt(name: str, *, address: str, domain: str) -> str | None:
    """Why this name beside this address is in doubt, None when it is not.

    `domain` is the address's, as `ascii_domain` gives it.
    """
    if "\ufffd" in name or "=?" in name:
        return "the display name could not be decoded"
    if any(unicodedata2.category(one) in UNSEEN or one in BLANKS for one in name):
        return "the display name has characters that nobody sees"
    if not ANGLES.isdisjoint(name):
        return "the display name has angle brackets"
    folded = unicodedata2.normalize("NFKC", name.translate(DOTS)).casefold()
    own = re.compile(rf"(?<![\w.@+-]){re.escape(address.casefold())}(?![\w.@+-])")
    rest = own.sub(" ", folded)
    if not AT_SIGNS.isdisjoint(rest) or not (AT_SIGNS - {"@", "\uff20", "\ufe6b"}).isdisjoint(name):
        return "the display name looks like an address"
    for host in HOST.findall(rest):
        if _is_another(host, domain):
            return "the display name has another domain in it"
    if any(len(set(_alphabets(word))) > 1 for word in LETTERS.findall(rest)):
        return "the display name has a word in several alphabets"
    return None


def _is_another(host: str, domain: str) -> bool:
    """Whether a dotted word reads as a domain of somebody else's."""
    encoded = ascii_domain(host)
    if encoded is None:
        # No host name; but one that only looks like it may hide behind other letters.
        return not host.isascii() and all(len(label) > 1 for label in host.split("."))
    if organisational_domain(encoded) == organisational_domain(domain):
        return False
    if ends_in_listed_suffix(encoded) or encoded.rpartition(".")[2] in INNER_SUFFIXES:
        return True
    return not host.isascii() and all(len(label) > 1 for label in host.split("."))


def _alphabets(word: str) -> Iterator[str]:
    for letter in word:
        alphabet = unicodedata2.name(letter, "").partition(" ")[0]
        if alphabet in ALPHABETS:
            yield alphabet
