"""What a plugin's notice may say (plugins: "one task per upstream record").

The text of a notice is the one text that muster cuts: an upstream's record is as long as it is, and
a notice that was refused for its length would be refused for ever. All else that is wrong is
refused.
"""

import enum
import re
from typing import Final

import attrs

from muster.errors import Invalid, NotSetUp
from muster.names import count_bytes, namespace_of, normalise_tag
from muster.tasks.rules import BODY_BYTES_MAX, COMMENT_BYTES_MAX, TITLE_CHARACTERS_MAX

_GAPS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class NoticeKind(enum.Enum):
    """What a notice is, by the plugin's reading; a comment or a change of status is an update."""

    ASSIGNED = "assigned"
    MENTIONED = "mentioned"
    UPDATE = "update"


@attrs.frozen(kw_only=True)
class NewTask:
    """The task that a notice files when no open one carries its key."""

    title: str
    body: str


@attrs.frozen(kw_only=True)
class PostNotice:
    """A notice as a plugin posts it. Leaves `task.created`, `task.commented`, both or nothing.

    `namespaces` are the deployment's own, for keys.
    """

    key: str
    create: NewTask | None = None
    comment: str | None = None
    route_to_chief: bool = False
    notice: str | None = None
    namespaces: frozenset[str]


def fit(post: PostNotice) -> PostNotice:
    """The notice as it is recorded: its texts within their limits, a blank comment gone.

    Raises Invalid for a field that breaks its rule, NotSetUp while the deployment lists no
    namespace: that is looked at last but for whether the key's is among them.
    """
    namespace = _check_key(post.key)
    create = None if post.create is None else _fit_task(post.create)
    comment = None
    if post.comment is not None:
        count_bytes(post.comment, field="comment")
        comment = _cut(post.comment.strip(), COMMENT_BYTES_MAX) or None
    if create is None and comment is None:
        raise Invalid("Give create, a comment that says something, or both.", field="create")
    _check_routing(post, comment)
    if not post.namespaces:
        raise NotSetUp(
            "This server lists no namespaces for tasks (MUSTER_PLUGIN_TASK_NAMESPACES).",
            code="no_task_namespaces",
        )
    if namespace not in post.namespaces:
        raise Invalid(f"This server takes no keys in {namespace!r}.", field="key")
    return attrs.evolve(post, create=create, comment=comment)


def _check_key(key: str) -> str:
    try:
        normal = normalise_tag(key)
    except Invalid as fault:
        raise Invalid(f"key must be a tag. {fault.sentence}", field="key") from None
    namespace = namespace_of(normal)
    if normal != key or not namespace or key == f"{namespace}:":
        raise Invalid("key must be <namespace>:<id>, and a tag in its one spelling.", field="key")
    return namespace


def _fit_task(task: NewTask) -> NewTask:
    count_bytes(task.title, field="create.title")
    count_bytes(task.body, field="create.body")
    # A title is one line on every page, whatever an upstream put into its own.
    title = _GAPS.sub(" ", task.title).strip()[:TITLE_CHARACTERS_MAX]
    if not title:
        raise Invalid("create.title must not be blank.", field="create.title")
    if not task.body.strip():
        raise Invalid("create.body must not be blank.", field="create.body")
    return NewTask(title=title, body=_cut(task.body, BODY_BYTES_MAX))


def _check_routing(post: PostNotice, comment: str | None) -> None:
    kinds = [kind.value for kind in NoticeKind]
    if post.notice is not None and post.notice not in kinds:
        raise Invalid(f"notice must be one of {', '.join(kinds)}.", field="notice")
    if post.notice is not None and not post.route_to_chief:
        raise Invalid("notice goes with route_to_chief.", field="notice")
    if post.route_to_chief and post.notice is None:
        raise Invalid("route_to_chief needs a notice.", field="notice")
    if post.route_to_chief and comment is None:
        raise Invalid("route_to_chief needs a comment that says something.", field="comment")


def _cut(text: str, bytes_max: int) -> str:
    """The longest beginning of `text` within so many bytes of UTF-8, in whole characters."""
    return text.encode()[:bytes_max].decode(errors="ignore")
