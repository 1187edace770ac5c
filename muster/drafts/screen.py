"""What a reply may not contain (plugins: "Replying: drafts you approve").

A heuristic that spares the owner from approving by mistake; the approval is the control. Its
verdicts come from pinned tables (`unicodedata2`, the public suffix list) and not from the
interpreter's, so that one text is judged alike everywhere.

Ordinary prose passes: `e.g.`, `v1.2.3`, `noon.Thanks`, `report.pdf`, `10:30`, `é`, an emoji. What
happens to end in a public suffix (`script.sh`, `thanks.It`) does not: a reader's mail program would
make a link of it, and the writer can put a space in.

Words are told apart where a script ends: `在10.0.0.1上` and `在example.com上` hold an address and a
host, for nobody writes a space there. Marks that show as nothing are no place to hide either: all
but the rule on characters looks at a text without them.

Rejected: cutting or masking what was found (a reply that says something else than its author wrote
is worse than a refusal); an allowlist of hosts (the words of a deployment are the owner's to say).
"""

import ipaddress
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, chain, pairwise
from typing import Final

import attrs
import unicodedata2
from publicsuffixlist import PublicSuffixList

SHOWN_CONTROLS: Final = "\n\t"
# Controls, format, private use, unassigned, surrogates, line and paragraph separators.
UNSHOWABLE: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
# Hangul fillers and the empty Braille pattern: letters and symbols that show as nothing.
BLANKS: Final = frozenset("\u3164\u115f\u1160\uffa0\u2800")

# Marks without a shape of their own: the grapheme joiner, Khmer's and Mongolian's, the variation
# selectors. Emoji and some scripts need them, so they may stand; the rules below do not see them.
SHAPELESS: Final = frozenset("\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)

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

# The letters and digits that make one word with Latin ones, and the scripts that put no space
# between words (Thai to Myanmar, Khmer, Hangul with its particles, Han and kana).
_LATIN = r"0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u036f\u1e00-\u1eff"
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)

_KEY_HEADER = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-|AGE-SECRET-KEY-1",
    re.IGNORECASE,
)
_OWN_TOKEN = re.compile(
    rf"(?<![{_LATIN}])(?:mpl|mst|mag|mmh|mskey|msac|msls|mscr|msat|msrt|msla)_[A-Za-z0-9_-]{{8,}}"
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
_IPV4 = re.compile(
    rf"(?<![{_LATIN}])(?<![0-9]\.)[0-9]{{1,3}}(?:[.\u3002][0-9]{{1,3}}){{3}}(?![0-9]|\.[0-9])"
)
# An address in the mixed notation holds one of version 4, which is found first.
_COLON_RUN = re.compile(rf"[{_LATIN}_:]{{3,}}")
# Over the shape of a text, in which every letter, mark and digit is an x.
_HOST = re.compile(r"(?<![x_-])[x_-]++(?:\.[x_-]++)++")
# Again without other scripts, which in prose may stand on both sides of a host.
_LATIN_HOST = re.compile(rf"(?<![{_LATIN}_-])[{_LATIN}_-]++(?:\.[{_LATIN}_-]++)++")
_LOCALHOST = re.compile(rf"(?<![{_LATIN}])localhost(?![{_LATIN}])", re.IGNORECASE)


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
    for offset in _characters(text):
        return _found("character", offset)
    places = [place for place, character in enumerate(text) if character not in SHAPELESS]
    seen = "".join(text[place] for place in places)
    rules: tuple[tuple[str, Iterator[int]], ...] = (
        ("ip_address", _addresses(seen)),
        ("credential", _credentials(seen)),
        ("host_name", _hosts(seen)),
        ("infrastructure_word", _words(seen, INFRASTRUCTURE_WORDS)),
        ("deny_word", _words(seen, deny_words)),
    )
    for rule, offsets in rules:
        for offset in offsets:
            return _found(rule, places[offset])
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


def _characters(text: str) -> Iterator[int]:
    for offset, character in enumerate(text):
        if character in SHOWN_CONTROLS:
            continue
        if character in BLANKS or unicodedata2.category(character) in UNSHOWABLE:
            yield offset


def _addresses(text: str) -> Iterator[int]:
    for match in _IPV4.finditer(text):
        if all(int(part) <= 255 for part in re.split(r"[.\u3002]", match[0])):
            yield match.start()
    for match in _COLON_RUN.finditer(text):
        run = match[0]
        # The whole run, or what a word before it introduces: `IPv6:fe80::1`.
        for start in (0, run.find(":") + 1):
            if _is_ipv6(run[start:]):
                yield match.start() + start


def _is_ipv6(run: str) -> bool:
    """Whether a run of letters, digits and colons is an address, a colon after it aside."""
    if run.count(":") < 2 or not run.strip(":"):
        return False
    for candidate in (run, run.rstrip(":")):
        try:
            ipaddress.IPv6Address(candidate)
        except ValueError:
            continue
        return True
    return False


def _credentials(text: str) -> Iterator[int]:
    for match in chain(key_headers(text), known_tokens(text)):
        yield match.start()
    for match in token_runs(text):
        if is_mixed(match[0]):
            yield match.start()


def key_headers(text: str) -> Iterator[re.Match[str]]:
    """Where a private key begins."""
    return _KEY_HEADER.finditer(text)


def known_tokens(text: str) -> Iterator[re.Match[str]]:
    """What begins as muster's own tokens or those of well-known services do."""
    return chain(_OWN_TOKEN.finditer(text), _KNOWN_TOKEN.finditer(text))


def token_runs(text: str) -> Iterator[re.Match[str]]:
    """Runs of TOKEN_RUN_MIN or more characters that tokens are made of; see is_mixed."""
    return _TOKEN_RUN.finditer(text)


def is_mixed(run: str) -> bool:
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


def _hosts(text: str) -> Iterator[int]:
    for match in _LOCALHOST.finditer(text):
        yield match.start()
    for match in chain(_HOST.finditer(_shape(text)), _LATIN_HOST.finditer(text)):
        labels = text[match.start() : match.end()].replace("\u3002", ".").split(".")
        # Not the last labels alone, for prose may go on without a space: `example.org.Thanks`.
        if any(_is_host(left, right) for left, right in pairwise(labels)):
            yield match.start()


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


def _words(text: str, words: frozenset[str]) -> Iterator[int]:
    """Where one of `words` stands in `text` as a whole word, whatever its case and spacing."""
    by_edges: dict[tuple[str, str], list[str]] = {}
    for needle in sorted({" ".join(fold(word).casefold().split()) for word in words} - {""}):
        edges = _edge(needle[0], "(?<!{})"), _edge(needle[-1], "(?!{})")
        by_edges.setdefault(edges, []).append(r"\s+".join(map(re.escape, needle.split())))
    if not by_edges:
        return
    pattern = "|".join(
        f"{before}(?:{'|'.join(needles)}){after}" for (before, after), needles in by_edges.items()
    )
    match = re.search(pattern, text.casefold())
    if match is None:
        return
    # Folding case lengthens some letters, so the place is counted in the text itself.
    ends = accumulate(len(character.casefold()) for character in text)
    yield next(offset for offset, end in enumerate(ends) if end > match.start())


def _edge(character: str, look: str) -> str:
    """What must not stand beside `character`, for the word that it begins or ends to be whole."""
    if _UNSPACED.match(character):
        return ""
    return look.format(f"[{_LATIN}]" if re.match(f"[{_LATIN}]", character) else r"[^\W_]")
