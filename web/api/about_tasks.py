"""What `/openapi.json` tells of the routes of tasks."""

from typing import Final, get_args

from muster.tasks.operations import Status
from web.about import About, Asks, Says, Taken
from web.api.task_shapes import (
    COMMENT_EXAMPLE,
    EXAMPLE,
    CommentBody,
    EditBody,
    MergeBody,
    RetractBody,
    ShownComment,
    ShownComments,
    ShownTask,
    ShownTasks,
    Standing,
    TaskBody,
)

BOTH: Final = (Taken.PERSONAL, Taken.HOOK)
PERSON: Final = (Taken.PERSONAL,)
ID_MEANING: Final = "the id of a task"
INVALID: Final = Says(status=400, when="A field breaks a rule.", codes=("invalid",))
MISSING: Final = Says(status=404, when="There is no such task of yours.", codes=("not_found",))
NOT_JSON: Final = Says(
    status=415, when="The body must be application/json.", codes=("unsupported_media_type",)
)
MERGED: Final = Says(status=409, when="It was merged into another task.", codes=("task_merged",))
BEFORE: Final = Asks(name="before", meaning="an id: list what is older than it", type=int)
LIMIT: Final = "how many at most, 1 to 200"
STATE: Final = Says(
    status=409,
    when="It was merged into another task, or would have more than 20 tags.",
    codes=("task_merged", "too_many_tags"),
)

LIST: Final = About(
    name="listTasks",
    summary="List tasks, newest first",
    takes=BOTH,
    query=(
        Asks(
            name="status", meaning=f"one of {', '.join(get_args(Standing))}; unfinished if left out"
        ),
        Asks(name="tag", meaning="a tag, in any spelling"),
        Asks(name="text", meaning="a part of a title or body, among the newest 5,000"),
        BEFORE,
        Asks(name="limit", meaning=LIMIT, type=int),
    ),
    says=(
        Says(
            status=200,
            when="A page of them; next_before is null on the last.",
            shape=ShownTasks,
            example=ShownTasks(tasks=[EXAMPLE], next_before=None),
        ),
        INVALID,
    ),
)
CREATE: Final = About(
    name="createTask",
    summary="File a task",
    text="A tag gate:… keeps everything from being started on it until somebody removes it.",
    takes=BOTH,
    body=TaskBody,
    body_example=TaskBody(title="Rotate the build key", body="It is two years old."),
    says=(
        Says(status=201, when="Filed.", shape=ShownTask, example=EXAMPLE),
        INVALID,
        NOT_JSON,
    ),
)
SHOW: Final = About(
    name="showTask",
    summary="Show a task",
    takes=BOTH,
    id_meaning=ID_MEANING,
    says=(Says(status=200, when="The task.", shape=ShownTask, example=EXAMPLE), MISSING),
)
EDIT: Final = About(
    name="editTask",
    summary="Change a task",
    text="What is left out stays as it is. Whether it changed something or not, the answer is the"
    " task as it is now.",
    takes=PERSON,
    id_meaning=ID_MEANING,
    body=EditBody,
    body_example=EditBody(status=Status.IN_PROGRESS, add_tags=("inbox",)),
    says=(
        Says(status=200, when="As it is now.", shape=ShownTask, example=EXAMPLE),
        INVALID,
        MISSING,
        STATE,
        NOT_JSON,
    ),
)
UNGATE: Final = About(
    name="ungateTask",
    summary="Take every gate from a task",
    takes=PERSON,
    id_meaning=ID_MEANING,
    says=(
        Says(status=200, when="As it is now.", shape=ShownTask, example=EXAMPLE),
        MISSING,
        MERGED,
    ),
)
MERGE: Final = About(
    name="mergeTask",
    summary="Merge a task into another",
    text="The other one lives on and carries the tags of both. A merge is final.",
    takes=PERSON,
    id_meaning=ID_MEANING,
    body=MergeBody,
    body_example=MergeBody(into=8),
    says=(
        Says(status=200, when="The task that lives on.", shape=ShownTask, example=EXAMPLE),
        INVALID,
        MISSING,
        Says(
            status=409,
            when="One was merged before, they are one task, or there would be too many tags.",
            codes=("merge_self", "task_merged", "too_many_tags"),
        ),
        NOT_JSON,
    ),
)
LIST_COMMENTS: Final = About(
    name="listComments",
    summary="List a task's comments, newest first",
    takes=BOTH,
    id_meaning=ID_MEANING,
    query=(BEFORE, Asks(name="limit", meaning=LIMIT, type=int)),
    says=(
        Says(
            status=200,
            when="A page of them; next_before is null on the last.",
            shape=ShownComments,
            example=ShownComments(comments=[COMMENT_EXAMPLE], next_before=None),
        ),
        INVALID,
        MISSING,
    ),
)
ADD_COMMENT: Final = About(
    name="addComment",
    summary="Comment on a task",
    takes=BOTH,
    id_meaning=ID_MEANING,
    body=CommentBody,
    body_example=CommentBody(body="The new key is in the vault."),
    says=(
        Says(status=201, when="Recorded.", shape=ShownComment, example=COMMENT_EXAMPLE),
        INVALID,
        MISSING,
        NOT_JSON,
    ),
)
RETRACT: Final = About(
    name="retractComment",
    summary="Show a comment no more",
    text="Its text is kept, so that a plugin that says the same again does not bring it back.",
    takes=PERSON,
    id_meaning=ID_MEANING,
    body=RetractBody,
    body_example=RetractBody(comment_id=3),
    says=(
        Says(status=200, when="Retracted, now or before.", shape=ShownComment),
        INVALID,
        Says(status=404, when="The task has no such comment.", codes=("not_found",)),
        NOT_JSON,
    ),
)
