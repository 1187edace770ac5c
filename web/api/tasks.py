"""The owner's tasks for their own programs.

| route                         | does                                | the hook token too |
|-------------------------------|-------------------------------------|--------------------|
| GET  /api/tasks               | lists, newest first                 | yes                |
| POST /api/tasks               | files one                           | yes                |
| GET  /api/tasks/ID            | shows one                           | yes                |
| PATCH /api/tasks/ID           | changes what is given               |                    |
| POST /api/tasks/ID/ungate     | takes its gates away                |                    |
| POST /api/tasks/ID/merge      | merges it into another              |                    |
| GET  /api/tasks/ID/comments   | lists its comments, newest first    | yes                |
| POST /api/tasks/ID/comments   | comments on it                      | yes                |
| POST /api/tasks/ID/retract    | shows one of its comments no more   |                    |

The hook token is shared by programs of one machine, so it may bring things to the board and read
it; what opens a gate or takes something off the board needs a token that is a person's own. Checks
come in this order: credential, media type, shape, then whether there is such a task.
"""

from muster.names import normalise_tag
from muster.tasks import operations as tasks
from web.answers import Answer, answer
from web.api.about_tasks import (
    ADD_COMMENT,
    CREATE,
    EDIT,
    LIST,
    LIST_COMMENTS,
    MERGE,
    RETRACT,
    SHOW,
    UNGATE,
)
from web.api.reading import read_id, read_json
from web.api.task_shapes import (
    CommentBody,
    CommentQuery,
    EditBody,
    MergeBody,
    RetractBody,
    TaskBody,
    TaskQuery,
    shown_comment,
    shown_comments,
    shown_task,
    shown_tasks,
    standing_of,
)
from web.auth import prove_api
from web.bodies import given
from web.queries import decode_query
from web.routes import Asked, Route, Routes

NOUN = "task"


async def list_tasks(asked: Asked) -> Answer:
    """List the owner's tasks."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=False)
    query = decode_query(asked.query, TaskQuery)
    command = tasks.ListTasks(
        shelf=standing_of(query.status),
        tag=normalise_tag(query.tag, field="tag") if isinstance(query.tag, str) else None,
        text=query.text,
        before_id=given(query.before),
        limit=query.limit,
    )
    found = await asked.node.db.run(owner, tasks.list_tasks, command)
    return answer(200, shown_tasks(found, query.limit))


async def create_task(asked: Asked) -> Answer:
    """File a task."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=True)
    body = read_json(asked, TaskBody)
    command = tasks.CreateTask(
        title=body.title,
        body=body.body,
        tags=body.tags,
        repository=given(body.repository),
        model=given(body.model),
    )
    task = await asked.node.db.run(owner, tasks.create_task, command)
    return answer(201, shown_task(task))


async def show_task(asked: Asked) -> Answer:
    """Show one task."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=False)
    task = await asked.node.db.run(owner, tasks.get_task, read_id(asked, NOUN))
    return answer(200, shown_task(task))


async def edit_task(asked: Asked) -> Answer:
    """Change what is given."""
    owner = await prove_api(asked.node, asked.headers, hook=False, write=True)
    edit = read_json(asked, EditBody).edit()
    command = tasks.EditTask(task_id=read_id(asked, NOUN), edit=edit)
    task = await asked.node.db.run(owner, tasks.edit_task, command)
    return answer(200, shown_task(task))


async def ungate_task(asked: Asked) -> Answer:
    """Take a task's gates away."""
    owner = await prove_api(asked.node, asked.headers, hook=False, write=True)
    command = tasks.UngateTask(task_id=read_id(asked, NOUN))
    task = await asked.node.db.run(owner, tasks.ungate_task, command)
    return answer(200, shown_task(task))


async def merge_task(asked: Asked) -> Answer:
    """Merge a task into another, and answer the one that lives on."""
    owner = await prove_api(asked.node, asked.headers, hook=False, write=True)
    into = read_json(asked, MergeBody).into
    command = tasks.MergeTask(task_id=read_id(asked, NOUN), into=into)
    task = await asked.node.db.run(owner, tasks.merge_task, command)
    return answer(200, shown_task(task))


async def list_comments(asked: Asked) -> Answer:
    """List a task's comments."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=False)
    query = decode_query(asked.query, CommentQuery)
    command = tasks.ListComments(
        task_id=read_id(asked, NOUN), before_id=given(query.before), limit=query.limit
    )
    found = await asked.node.db.run(owner, tasks.list_comments, command)
    return answer(200, shown_comments(found, query.limit))


async def add_comment(asked: Asked) -> Answer:
    """Comment on a task."""
    owner = await prove_api(asked.node, asked.headers, hook=True, write=True)
    body = read_json(asked, CommentBody).body
    command = tasks.AddComment(task_id=read_id(asked, NOUN), body=body)
    comment = await asked.node.db.run(owner, tasks.add_comment, command)
    return answer(201, shown_comment(comment))


async def retract_comment(asked: Asked) -> Answer:
    """Show a comment no more."""
    owner = await prove_api(asked.node, asked.headers, hook=False, write=True)
    comment_id = read_json(asked, RetractBody).comment_id
    command = tasks.RetractComment(task_id=read_id(asked, NOUN), comment_id=comment_id)
    comment = await asked.node.db.run(owner, tasks.retract_comment, command)
    return answer(200, shown_comment(comment))


TASKS_API: Routes = (
    Route("GET", "/api/tasks", list_tasks, about=LIST),
    Route("POST", "/api/tasks", create_task, about=CREATE),
    Route("GET", "/api/tasks/{id}", show_task, about=SHOW),
    Route("PATCH", "/api/tasks/{id}", edit_task, about=EDIT),
    Route("POST", "/api/tasks/{id}/ungate", ungate_task, about=UNGATE),
    Route("POST", "/api/tasks/{id}/merge", merge_task, about=MERGE),
    Route("GET", "/api/tasks/{id}/comments", list_comments, about=LIST_COMMENTS),
    Route("POST", "/api/tasks/{id}/comments", add_comment, about=ADD_COMMENT),
    Route("POST", "/api/tasks/{id}/retract", retract_comment, about=RETRACT),
)
