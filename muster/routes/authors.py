"""Who authored a pull request (plugins: "A pull-request review mail").

A hook on a session's machine reports each `gh pr create` and each `git push` that succeeded. The
same authorship, told again, is the most recent one from then on; what was not told again for 30
days is forgotten at the owner's next report. A pull request's author is the session that created
it, by its number, or pushed its head branch, whichever was told last.

`repo` is compared without case. The host of the window that shows the session is kept: when the
session has ended, that host alone may be asked to resume it.
"""

import enum
from datetime import datetime, timedelta
from typing import Final

import attrs

from muster.errors import Invalid
from muster.routes.reviews import PR_MAX, REF_CHARACTERS_MAX, Review, is_number, is_ref, is_repo
from muster.routes.threads import check_session

KEPT: Final = timedelta(days=30)


class Did(enum.Enum):
    """What a session did; the value is what its hook reports."""

    CREATED = "gh-pr-create"
    PUSHED = "git-push"


@attrs.frozen(kw_only=True)
class ReportAuthor:
    """A session created a pull request or pushed a branch. No audit row: hooks tell it often.

    A create names the pull request, and the branch when its command did; a push names the branch.
    """

    repo: str
    kind: Did = attrs.field(converter=Did)
    claude_session: str
    pr: int | None = None
    head_ref: str | None = None

    @property
    def repo_key(self) -> str:
        """What two spellings of one repository share."""
        return self.repo.lower()


@attrs.frozen(kw_only=True)
class Author:
    """The session that authored a pull request: what its host's hook reported, and when.

    `mirrored_id` is None for one that no host ever showed, `host` for one that none showed then.
    """

    claude_session: str
    mirrored_id: int | None
    host_id: int | None
    host: str | None
    kind: Did = attrs.field(converter=Did)
    repo: str
    pr: int | None
    head_ref: str | None
    seen_at: datetime
    title: str | None  # its newest focus

    @property
    def did(self) -> str:
        """What it did, in words."""
        if self.kind is Did.CREATED:
            return f"created {self.repo}#{self.pr}"
        return f"pushed {self.head_ref} to {self.repo}"


def check_report(report: ReportAuthor) -> None:
    """Raise Invalid with the first field of a report that breaks a rule."""
    if not is_repo(report.repo):
        raise Invalid("repo must be <owner>/<repository>.", field="repo")
    check_session(report.claude_session)
    if report.pr is not None and not is_number(report.pr):
        raise Invalid(f"pr must be a number from 1 to {PR_MAX}.", field="pr")
    if report.head_ref is not None and not is_ref(report.head_ref):
        raise Invalid(
            f"head_ref must be a branch: 1 to {REF_CHARACTERS_MAX} characters without spaces.",
            field="head_ref",
        )
    if report.kind is Did.CREATED and report.pr is None:
        raise Invalid("A gh-pr-create names its pr.", field="pr")
    if report.kind is Did.PUSHED and report.pr is not None:
        raise Invalid("A git-push has no pr.", field="pr")
    if report.kind is Did.PUSHED and report.head_ref is None:
        raise Invalid("A git-push names its head_ref.", field="head_ref")


def via_review(review: Review, claude_session: str) -> str:
    """How a route was chosen, for its audit row."""
    return f"{about(review)} authored by {claude_session}"


def about(review: Review) -> str:
    """What two rounds of review of one pull request share, whatever the case of its repository."""
    return f"pr {review.repo}#{review.pr}"
