"""Which mails are reviews of a pull request, and what they name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.routes.reviews import Review, read_review

SHA = "0123456789abcdef0123456789abcdef01234567"
MEMBERS: dict[str, object] = {"repo": "Example/Work.x", "pr": 12, "head_sha": SHA}
REVIEW = Review(repo="Example/Work.x", pr=12, head_sha=SHA, head_ref=None)


def mail(
    members: object = MEMBERS, *, fence: str = "```", info: str = "json", after: str = ""
) -> str:
    """A mail that ends with the block."""
    return f"Two findings.\n\n{fence}{info}\n{json.dumps(members)}\n{fence}{after}"


@pytest.mark.rule(358, 359)
@pytest.mark.parametrize(
    "body",
    [
        mail(),
        mail(after="\n  \n\t\r\n"),
        mail(fence="`````"),
        mail(info=" json "),
        mail().replace("\n", "\r\n"),
        "```json\n{}\n```\n" + mail(),
        "```python\nprint()\n```\n" + mail(),
        mail({**MEMBERS, "more": [1]}),
    ],
)
def test_the_last_json_block_that_ends_the_body_is_read(body: str) -> None:
    """Blocks before it, other members and white space behind it do not matter."""
    assert read_review(body) == REVIEW


@pytest.mark.rule(359)
@pytest.mark.parametrize(
    "body",
    [
        "",
        "No block here.",
        mail(after="\nRegards"),
        mail(info=""),
        mail(info="JSON"),
        mail(info="json5"),
        mail()[:-3],
        mail()[:-1],
        "````\n" + mail() + "\n````",
        mail().replace("```json", "````json"),
        mail() + "\n```text\nlater\n```",
        mail([]),
        mail({**MEMBERS, "repo": "example"}),
        mail({**MEMBERS, "repo": "example/a b"}),
        mail({**MEMBERS, "repo": "example/work/x"}),
        mail({**MEMBERS, "pr": 0}),
        mail({**MEMBERS, "pr": -3}),
        mail({**MEMBERS, "pr": "12"}),
        mail({**MEMBERS, "pr": 12.0}),
        mail({**MEMBERS, "pr": True}),
        mail({**MEMBERS, "head_sha": SHA.upper()}),
        mail({**MEMBERS, "head_sha": SHA[:-1]}),
        mail({**MEMBERS, "head_sha": SHA + "\n"}),
        mail({**MEMBERS, "head_ref": 3}),
        mail({**MEMBERS, "head_ref": ""}),
        mail({"repo": "example/work", "pr": 12}),
        mail().replace('"pr": 12', '"pr": 12, "pr": 13'),
    ],
)
def test_anything_else_names_nothing(body: str) -> None:
    """A block that is missing, malformed, within another or followed by words is no review."""
    assert read_review(body) is None


@pytest.mark.rule(359)
def test_repositories_are_compared_without_case() -> None:
    """Two spellings share a key, and the branch is kept as it is written."""
    found = read_review(mail({**MEMBERS, "head_ref": "Topic/One"}))
    assert found is not None
    assert (found.repo_key, found.head_ref) == ("example/work.x", "Topic/One")


@given(st.text() | st.text(alphabet="`json{}\n \r\"'repo:1"))
def test_no_body_breaks_the_reading(body: str) -> None:
    """Whatever a mail says, it names a whole review or nothing."""
    found = read_review(body)
    assert found is None or len(found.head_sha) == 40


@given(st.text(alphabet="ab`\n~ "), st.integers(min_value=3, max_value=8))
def test_prose_before_the_block_that_closes_its_fences_does_not_matter(
    prose: str, ticks: int
) -> None:
    """Text without a fence in front changes nothing."""
    before = prose.replace("`", "'")
    assert read_review(before + "\n" + mail(fence="`" * ticks)) == REVIEW
