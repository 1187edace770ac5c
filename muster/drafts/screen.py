"""What a reply may not contain (plugins: "Replying: drafts you approve").

A heuristic that spares the owner from approving by mistake; the approval is the control. Its
verdicts come from pinned tables (`unicodedata2`, the public suffix list) and not from the
interpreter's, so that one text is judged alike everywhere.

Ordinary prose passes: `e.g.`, `v1.2.3`, `noon.Thanks`, `report.pdf`, `10:30`, `é`, an emoji. What
happens to end in a public suffix (`script.sh`, `thanks.It`) does not: a reader's mail program would
make a link of it, and the writer can put a space in.

Rejected: cutting or masking what was found (a reply that says something else than its author wrote
is worse than a refusal); an allowlist of hosts (the words of a deployment are the owner's to say).
"""

import ipaddress
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

import attrs
import unicodedata2
from publicsuffixlist import PublicSuffixList

SHOWN_CONTROLS: Final = "\n\t"
# Controls, format, private use, unassigned, surrogates, line and paragraph separators.
UNSHOWABLE: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
# Hangul fillers and the empty Braille pattern: letters and symbols that show as nothing.
BLANKS: Final = frozenset("\u3164\u115f\u1160\uffa0\u2800")

LOCAL_SUFFIXES: Final = frozenset({"local", "internal", "lan"})  # home.arpa is a public one
INFRASTRUCTURE_WORDS: Final = frozenset(
    {
        "authorized_keys",
        "database_url",
        "iptables",
        "known_hosts",
        "kubeconfig",
        "kubectl",
        "muster_app",
        "muster_system",
        "pg_hba",
        "sshd_config",
        "tailnet",
        "wireguard",
        "/etc/passwd",
        "/etc/shadow",
    }
)
TOKEN_RUN_MIN: Final = 32

_KEY_HEADER = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-|AGE-SECRET-KEY-1",
    re.IGNORECASE,
)
_OWN_TOKEN = re.compile(
    r"(?<![^\W_])(?:mpl|mst|mag|mmh|mskey|msac|msls|mscr|msat|msrt|msla)_[A-Za-z0-9_-]{8,}"
)
_KNOWN_TOKEN = re.compile(
    r"""(?<![^\W_])(?:
        (?:gh[opsur]|github_pat|glpat|gldt|npm|pypi|hf|dop_v1|shp(?:at|ca|pa|ss))[_-][\w-]{16,}
      | (?:sk|rk|pk)[_-](?:live|test|ant|proj|or|svcacct)[_-][\w-]{8,}
      | sk-[A-Za-z0-9]{16,}
      | xox[abeoprs]-[\w-]{8,}
      | xapp-[\w-]{8,}
      | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}
      | AIza[\w-]{20,}
      | ya29\.[\w-]{8,}
      | SG\.[\w-]{8,}
      | eyJ[\w-]{8,}
    )""",
    re.VERBOSE | re.ASCII,
)
_TOKEN_RUN = re.compile(rf"[A-Za-z0-9+/=_-]{{{TOKEN_RUN_MIN},}}")
_UPPER_AFTER_LOWER = re.compile(r"[a-z][A-Z]")
_IPV4 = re.compile(r"(?<![^\W_])(?<![0-9]\.)[0-9]{1,3}(?:[.\u3002][0-9]{1,3}){3}(?![0-9]|\.[0-9])")
_IPV6 = re.compile(r"(?<![\w:])[0-9A-Fa-f:.]{2,}+(?!\w)")
# Over the shape of a text, in which every letter, mark and digit is an x.
_HOST = re.compile(r"(?<![x_-])[x_-]++(?:\.[x_-]++)++")
_LOCALHOST = re.compile(r"(?<![^\W_])localhost(?![^\W_])", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Finding:
    """What was found: the rule's slug, where (characters into the folded text), and a sentence."""

    rule: str
    offset: int
    sentence: str


def fold(text: str) -> str:
    """Fold to NFKC: what is screened, stored, hashed, shown and sent."""
    return str(unicodedata2.normalize("NFKC", text))


def screen(text: str, deny_words: frozenset[str]) -> Finding | None:
    """Find what a reply may not contain in `text`, which is folded; None for a text that may go.

    `deny_words` are the deployment's own names (`MUSTER_FLOW_AGENT_DENY_WORDS`); they are matched
    as whole words whatever their case. The first finding in the order of the rules is returned.
    """
    for find in (_characters, _addresses, _credentials, _hosts):
        for finding in find(text):
            return finding
    rules = (("infrastructure_word", INFRASTRUCTURE_WORDS), ("deny_word", deny_words))
    for rule, words in rules:
        offset = _find_word(text, words)
        if offset is not None:
            return _found(rule, offset)
    return None


_SENTENCES: Final = {
    "character": "a character that could not be shown",
    "ip_address": "an IP address",
    "host_name": "a host name",
    "credential": "what looks like a credential",
    "infrastructure_word": "a word about the infrastructure",
    "deny_word": "a name that this deployment keeps to itself",
}


def _found(rule: str, offset: int) -> Finding:
    sentence = f"The text contains {_SENTENCES[rule]} (rule {rule}) at offset {offset}."
    return Finding(rule=rule, offset=offset, sentence=sentence)


def _characters(text: str) -> Iterator[Finding]:
    for offset, character in enumerate(text):
        if character in SHOWN_CONTROLS:
            continue
        if character in BLANKS or unicodedata2.category(character) in UNSHOWABLE:
            yield _found("character", offset)


def _addresses(text: str) -> Iterator[Finding]:
    for match in _IPV4.finditer(text):
        if all(int(part) <= 255 for part in re.split(r"[.\u3002]", match[0])):
            yield _found("ip_address", match.start())
    for match in _IPV6.finditer(text):
        if _is_ipv6(match[0]):
            yield _found("ip_address", match.start())


def _is_ipv6(run: str) -> bool:
    """Whether a run of hexadecimal digits, colons and dots is an address, punctuation aside."""
    bare = run.strip(".")
    if bare.count(":") < 2 or not bare.strip(":."):
        return False
    for candidate in (bare, bare.rstrip(":")):
        try:
            ipaddress.IPv6Address(candidate)
        except ValueError:
            continue
        return True
    return False


def _credentials(text: str) -> Iterator[Finding]:
    for pattern in (_KEY_HEADER, _OWN_TOKEN, _KNOWN_TOKEN):
        for match in pattern.finditer(text):
            yield _found("credential", match.start())
    for match in _TOKEN_RUN.finditer(text):
        if _is_mixed(match[0]):
            yield _found("credential", match.start())


def _is_mixed(run: str) -> bool:
    """Whether a run is of mixed class: letters with digits, or capitals within it.

    A long word of one language, capital first letter included, is not.
    """
    digits = any(character.isdigit() for character in run)
    letters = any(character.isalpha() for character in run)
    return (digits and letters) or _UPPER_AFTER_LOWER.search(run) is not None


@cache
def _suffixes() -> PublicSuffixList:
    """The list that ships with the package, read at the first use."""
    return PublicSuffixList(accept_unknown=False)


def _hosts(text: str) -> Iterator[Finding]:
    for match in _LOCALHOST.finditer(text):
        yield _found("host_name", match.start())
    for match in _HOST.finditer(_shape(text)):
        labels = text[match.start() : match.end()].replace("\u3002", ".").split(".")
        # Not the last labels alone, for prose may go on without a space: `example.org.Thanks`.
        if any(_is_host(left, right) for left, right in pairwise(labels)):
            yield _found("host_name", match.start())


def _shape(text: str) -> str:
    """The text with every letter, mark and digit as an x, dots as they are, the rest blank."""
    return "".join(map(_shape_of, text))


@lru_cache(maxsize=4096)
def _shape_of(character: str) -> str:
    if character in "-_.":
        return character
    if character == "\u3002":
        return "."
    return "x" if unicodedata2.category(character)[0] in "LMN" else " "


@lru_cache(maxsize=4096)
def _is_host(left: str, right: str) -> bool:
    """Whether two labels, with or without a hyphened tail (`example.org-based`), end a name.

    Two labels tell: every public suffix ends in one of at most two.
    """
    left, right = left.casefold(), right.casefold()
    return any(
        ending in LOCAL_SUFFIXES or _suffixes().publicsuffix(f"{left}.{ending}") is not None
        for ending in {right, re.split("[-_]", right)[0]} - {""}
    )


def _find_word(text: str, words: frozenset[str]) -> int | None:
    """Where the first of `words` stands in `text` as a whole word, whatever its case."""
    needles = sorted({fold(word).casefold().strip() for word in words} - {""})
    if not needles:
        return None
    pattern = rf"(?<![^\W_])(?:{'|'.join(map(re.escape, needles))})(?![^\W_])"
    match = re.search(pattern, text.casefold())
    if match is None:
        return None
    # Folding case lengthens some letters, so the place is counted in the text itself.
    length = 0
    for offset, character in enumerate(text):
        length += len(character.casefold())
        if length > match.start():
            return offset
    raise AssertionError("a match lies within its text")
