"""Reading a review gate's mail: which pull request it is about (plugins: "A pull-request review").

The body ends with a fenced block whose info string is `json`, behind which only white space stands:

    ```json
    {"repo": "owner/name", "pr": 12, "head_sha": "<40 hex>", "head_ref": "<branch>"}
    ```

Everything else in the mail is ignored, and a block that is missing or malformed names nothing: the
message is then delivered like any other. Fences are CommonMark's: three or more backticks, at most
three blanks before them, closed by a run at least as long with nothing behind it. So a block
inside a longer fence is text, and one that was never closed is no block.

Names of repositories are compared without case, in ASCII; `repo` keeps what was written,
`repo_key` is what is compared.
"""

import json
import re
from typing import Final, TypeGuard

import attrs

REPO: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
REPO_CHARACTERS_MAX: Final = 200
REF_CHARACTERS_MAX: Final = 250
PR_MAX: Final = 2**31 - 1
_HEAD_SHA = re.compile(r"[0-9a-f]{40}")
_OPENING = re.compile(r" {0,3}(?P<run>`{3,})(?P<info>[^`]*)")
_CLOSING = re.compile(r" {0,3}(?P<run>`{3,})[ \t]*")


@attrs.frozen(kw_only=True)
class Review:
    """A round of review: of which pull request, at which commit."""

    repo: str
    pr: int
    head_sha: str
    head_ref: str | None

    @property
    def repo_key(self) -> str:
        """What two spellings of one repository share."""
        return self.repo.lower()


@attrs.frozen
class _Block:
    info: str
    text: str
    ends_body: bool


def read_review(body: str) -> Review | None:
    """The review that a mail's body ends with; None when it is not such a mail."""
    blocks = [block for block in _blocks(body) if block.info == "json"]
    if not blocks or not blocks[-1].ends_body:
        return None
    try:
        members = json.loads(blocks[-1].text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return _review(members)


def is_repo(text: object) -> TypeGuard[str]:
    """Whether this names a repository, `owner/name`."""
    return (
        isinstance(text, str)
        and len(text) <= REPO_CHARACTERS_MAX
        and REPO.fullmatch(text) is not None
    )


def is_ref(text: object) -> TypeGuard[str]:
    """Whether this may name a branch: printable, without spaces, of a bounded length."""
    return (
        isinstance(text, str)
        and 1 <= len(text) <= REF_CHARACTERS_MAX
        and text.isprintable()
        and " " not in text
    )


def is_number(value: object) -> TypeGuard[int]:
    """Whether this numbers a pull request."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= PR_MAX


def _review(members: object) -> Review | None:
    if not isinstance(members, dict):
        return None
    repo, pr, head_sha = members.get("repo"), members.get("pr"), members.get("head_sha")
    head_ref = members.get("head_ref")
    if not (is_repo(repo) and is_number(pr) and _is_sha(head_sha)):
        return None
    if head_ref is not None and not is_ref(head_ref):
        return None
    return Review(repo=repo, pr=pr, head_sha=head_sha, head_ref=head_ref)


def _is_sha(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and _HEAD_SHA.fullmatch(text) is not None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object's members; a name that stands twice says two things, so it is malformed."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member stands twice")
    return members


def _blocks(body: str) -> list[_Block]:
    """The closed fences of a text, in order."""
    lines = re.split(r"\r\n|\r|\n", body)
    blocks = []
    opened: re.Match[str] | None = None
    inside: list[str] = []
    for number, line in enumerate(lines):
        if opened is None:
            opened = _OPENING.fullmatch(line)
            inside = []
            continue
        closing = _CLOSING.fullmatch(line)
        if closing is None or len(closing["run"]) < len(opened["run"]):
            inside.append(line)
            continue
        rest = "".join(lines[number + 1 :])
        blocks.append(_Block(opened["info"].strip(), "\n".join(inside), not rest.strip()))
        opened = None
    return blocks
