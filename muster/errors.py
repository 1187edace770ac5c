"""The ways in which muster says no; every door maps these classes to its own codes.

`code` is the contract (a slug a program can branch on), `sentence` is for a person, `field` names
the part of the input that broke a rule, `facts` are further members of a JSON answer.
"""

from collections.abc import Mapping


class MusterError(Exception):
    """The base of what a caller can be told; never raised itself."""

    default_code = "failed"

    def __init__(
        self,
        sentence: str,
        *,
        code: str | None = None,
        field: str | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code or self.default_code
        self.field = field
        self.facts: Mapping[str, object] = facts or {}


class Invalid(MusterError):
    """The input breaks a rule of its shape; the same input will never be accepted."""

    default_code = "invalid"


class Unauthorized(MusterError):
    """The caller proved nothing that this door takes."""

    default_code = "unauthorized"


class NotFound(MusterError):
    """There is no such thing, or it is somebody else's: the answer is the same."""

    default_code = "not_found"


class Refused(MusterError):
    """A rule says no in this state; another may say yes. Rules return it, operations raise it."""

    default_code = "refused"


class Forbidden(Refused):
    """The caller is known, and what it may do does not go that far."""

    default_code = "forbidden"


class Conflict(Refused):
    """Something that may exist once exists already."""

    default_code = "conflict"


class TooMany(MusterError):
    """An allowance is used up."""

    default_code = "too_many"

    def __init__(self, sentence: str, *, retry_after_seconds: int, code: str | None = None) -> None:
        super().__init__(sentence, code=code)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(MusterError):
    """The database or a peer is gone or too busy; nothing was done."""

    default_code = "unavailable"


class NotSetUp(MusterError):
    """This server lacks a setting that the request needs; whoever runs it may give it one."""

    default_code = "not_set_up"


class OutcomeUnknown(Unavailable):
    """A commit was sent and its answer was lost: it happened or it did not. Nobody retries it."""

    default_code = "outcome_unknown"
