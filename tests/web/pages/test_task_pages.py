"""/tasks and a task's page: what stands there, and what its forms do."""

import re
from pathlib import Path

import httpx2
import pytest

from muster.chief.gating import CreateGated, create_gated
from muster.principals import Acting
from muster.tasks import operations as tasks
from muster.tasks.operations import Status, Task
from muster.tasks.operations.notices import NewTask, PostNotice, post_notice
from tests.support.browser import Browser
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk, text_of

LISTED = {"MUSTER_PLUGIN_TASK_NAMESPACES": "tracker"}


async def file(at: OwnerDesk, title: str, *tags: str, body: str = "") -> Task:
    """File a task of the owner's."""
    command = tasks.CreateTask(title=title, tags=tags, body=body)
    return await at.db.run(at.owner, tasks.create_task, command)


async def gate(at: OwnerDesk, title: str = "Book a table", body: str = "For two.") -> Task:
    """Have the chief file a gated task because of a message."""
    message = await at.message()
    command = CreateGated(title=title, body=body, gate_reason="needs ok", message_id=message.id)
    return await at.db.run(at.chief, create_gated, command)


async def get(at: OwnerDesk, task_id: int) -> Task:
    """The task as it is stored."""
    return await at.db.run(at.owner, tasks.get_task, task_id)


async def say(at: OwnerDesk, task_id: int, body: str, by: Acting | None = None) -> tasks.Comment:
    """Comment on a task."""
    command = tasks.AddComment(task_id=task_id, body=body)
    return await at.db.run(by or at.owner, tasks.add_comment, command)


def went_to(answer: httpx2.Response, path: str) -> None:
    """The form was taken, and its answer leads there."""
    assert (answer.status_code, answer.headers.get("location")) == (303, path), answer.text


def titles_on(page: str) -> list[str]:
    """The titles in the table, in order."""
    return [text_of(found) for found in re.findall(r"data-open[^>]*>(.*?)</a>", page, re.DOTALL)]


def tags_on(page: str) -> list[str]:
    """The tags in the row of filters."""
    row = re.search(r'aria-label="Tags">(.*?)</nav>', page, re.DOTALL)
    return [] if row is None else re.findall(r"tag=([^\"&]*)\"", row[1])


async def test_the_board_is_filtered_by_status_tag_and_words(owner_desk: OpenOwnerDesk) -> None:
    """What is not finished stands there, newest first; each filter narrows it."""
    async with owner_desk() as at:
        assert "Nothing is to be done" in await at.page("/tasks")
        await file(at, "Dig", "garden")
        wet = await file(at, "Water <b>it</b>", "garden", "gate:x", body="100% of it")
        done = await file(at, "Done", "shed")
        await at.visiting.post(f"/tasks/{done.id}/status", status="complete")
        page = await at.page("/tasks")
        assert titles_on(page) == ["Water <b>it</b>", "Dig"]
        assert "<b>it</b>" not in page
        assert "gated" in text_of(page)
        assert titles_on(await at.page("/tasks?status=complete")) == ["Done"]
        assert titles_on(await at.page("/tasks?status=all")) == ["Done", "Water <b>it</b>", "Dig"]
        assert titles_on(await at.page("/tasks?tag=Gate:X")) == ["Water <b>it</b>"]
        assert titles_on(await at.page("/tasks?text=100%25")) == ["Water <b>it</b>"]
        assert titles_on(await at.page(f"/tasks?before={wet.id}")) == ["Dig"]
        assert "There is no such task" in await at.page("/tasks?text=nowhere")
        assert titles_on(await at.page("/tasks?status=lost&before=x")) == ["Water <b>it</b>", "Dig"]
        assert (await at.visiting.get("/tasks?tag=a,b")).status_code == 400


async def test_the_board_is_paged(owner_desk: OpenOwnerDesk) -> None:
    """Fifty stand on a page, and a link leads to the older ones with the filters kept."""
    async with owner_desk() as at:
        for number in range(52):
            await file(at, f"Task {number}", "a:b/c")
        page = await at.page("/tasks?tag=a:b/c&text=task")
        assert len(titles_on(page)) == 50
        (older,) = re.findall(r'rel="next" href="([^"]*)"', page)
        assert titles_on(await at.page(older.replace("&amp;", "&"))) == ["Task 1", "Task 0"]


@pytest.mark.rule(124)
async def test_the_row_of_tags_leaves_out_the_records_of_upstreams(
    owner_desk: OpenOwnerDesk,
) -> None:
    """Tags of the plugins' namespaces are on their tasks and not in the row of filters."""
    async with owner_desk(**LISTED) as at:
        await file(at, "Dig", "garden", "gate:x", "tracker:7")
        page = await at.page("/tasks")
        assert tags_on(page) == ["garden", "gate%3Ax"]
        assert "tracker:7" in page


async def test_a_task_is_filed_by_the_form(owner_desk: OpenOwnerDesk) -> None:
    """The form files a task; a fault brings the form back with what was typed."""
    async with owner_desk() as at:
        assert "New task" in await at.page("/tasks/new")
        typed = {"title": "Dig", "body": "a\r\nb", "tags": " In Box, gate:x,", "repository": "a/b"}
        answer = await at.visiting.post("/tasks", **typed)
        task_id = int(answer.headers["location"].removeprefix("/tasks/"))
        task = await get(at, task_id)
        assert (task.title, task.body, task.repository) == ("Dig", "a\nb", "a/b")
        assert task.tags == ("gate:x", "in-box")
        wrong = await at.visiting.post("/tasks", **{**typed, "tags": "a#b", "body": "<typed>"})
        assert wrong.status_code == 400
        assert "&lt;typed&gt;" in wrong.text
        assert 'value="a#b"' in wrong.text
        assert "A tag must be" in wrong.text


@pytest.mark.rule(243, 246)
async def test_a_gated_task_is_ungated_by_its_own_button(owner_desk: OpenOwnerDesk) -> None:
    """The page says what waits, marks the text as not the owner's, links the message it cites."""
    async with owner_desk() as at:
        task = await gate(at, body="Do <i>this</i>\u202e now")
        page = await at.page(f"/tasks/{task.id}")
        assert "Nothing starts work on this task" in page
        assert "gate:needs-ok" in page
        assert f'href="/messages/{task.message_id}"' in page
        assert "Untrusted: written by agent:" in text_of(page)
        assert "<i>this</i>" not in page
        assert "\u202e" not in page.partition('id="edit"')[0]
        assert f'data-live="task:{task.id}"' in page
        went_to(await at.visiting.post(f"/tasks/{task.id}/ungate"), f"/tasks/{task.id}")
        assert (await get(at, task.id)).gates == ()
        again = await at.page(f"/tasks/{task.id}")
        assert "Remove the gate" not in again
        went_to(await at.visiting.post(f"/tasks/{task.id}/ungate"), f"/tasks/{task.id}")


async def test_status_tags_and_text_are_changed_by_forms(owner_desk: OpenOwnerDesk) -> None:
    """Each form changes what it says and nothing else, and leads back to the task."""
    async with owner_desk() as at:
        task = await file(at, "Dig", "a", "b", body="deep")
        path = f"/tasks/{task.id}"
        went_to(await at.visiting.post(f"{path}/status", status="ready_for_review"), path)
        went_to(await at.visiting.post(f"{path}/tags", add="New One, c"), path)
        went_to(await at.visiting.post(f"{path}/tags", remove="b"), path)
        changed = await get(at, task.id)
        assert changed.status is Status.READY_FOR_REVIEW
        assert changed.tags == ("a", "c", "new-one")
        assert (changed.title, changed.body) == ("Dig", "deep")
        edit = {"title": "Dig more", "body": "x\r\ny", "repository": "", "model": "large"}
        went_to(await at.visiting.post(f"{path}/edit", **edit), path)
        edited = await get(at, task.id)
        assert (edited.title, edited.body, edited.model) == ("Dig more", "x\ny", "large")
        assert edited.tags == changed.tags
        for form, fields in (
            ("status", {"status": "lost"}),
            ("status", {"status": "all"}),
            ("tags", {"add": "a#b"}),
            ("edit", {**edit, "title": " "}),
        ):
            assert (await at.visiting.post(f"{path}/{form}", **fields)).status_code == 400
        assert await get(at, task.id) == edited


async def test_comments_stand_in_a_thread_and_can_be_retracted(owner_desk: OpenOwnerDesk) -> None:
    """What anybody said stands there as text; a retracted comment shows nothing of it."""
    async with owner_desk(**LISTED) as at:
        command = PostNotice(
            key="tracker:1",
            create=NewTask(title="t", body="b"),
            comment="<script>alert(1)</script>",
            namespaces=frozenset({"tracker"}),
        )
        task_id = (await at.db.run(at.plugin, post_notice, command)).task_id
        assert task_id is not None
        path = f"/tasks/{task_id}"
        said = await at.visiting.post(f"{path}/comments", body="Why?\r\n")
        assert said.status_code == 303
        assert said.headers["location"].startswith(f"{path}#comment-")
        page = await at.page(path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
        assert page.index("plugin:mail") < page.index("Why?")
        (first, _) = re.findall(r'action="([^"]*/retract)"', page)
        went_to(await at.visiting.post(first), f"{path}#comment-{first.split('/')[4]}")
        page = await at.page(path)
        assert "&lt;script&gt;" not in page
        assert "Retracted" in page
        assert (await at.visiting.post(f"{path}/comments", body=" ")).status_code == 400


async def test_a_long_thread_is_paged(owner_desk: OpenOwnerDesk) -> None:
    """The newest hundred comments stand there, oldest first, with a way to the older ones."""
    async with owner_desk() as at:
        task = await file(at, "Dig")
        for number in range(102):
            await say(at, task.id, f"said {number}.")
        page = await at.page(f"/tasks/{task.id}")
        assert page.index("said 2.") < page.index("said 101.")
        assert "said 1." not in page
        (older,) = re.findall(r'rel="next" href="([^"]*)"', page)
        assert "said 1." in await at.page(older)


@pytest.mark.rule(114)
async def test_a_merge_leads_to_the_winner(owner_desk: OpenOwnerDesk) -> None:
    """The loser's page says where it went and has no form but for comments."""
    async with owner_desk() as at:
        loser, winner = await file(at, "Dig it", "a"), await file(at, "Dig", "b")
        answer = await at.visiting.post(f"/tasks/{loser.id}/merge", into=f"#{winner.id}")
        went_to(answer, f"/tasks/{winner.id}")
        assert f'href="/tasks/{loser.id}"' in await at.page(f"/tasks/{winner.id}")
        page = await at.page(f"/tasks/{loser.id}")
        assert f"merged into task {winner.id}" in text_of(page)
        assert re.findall(rf'action="/tasks/{loser.id}/(\w+)"', page) == ["comments"]
        for into, status in ((str(winner.id), 409), ("x", 400), ("", 400), (str(2**63), 400)):
            answer = await at.visiting.post(f"/tasks/{loser.id}/merge", into=into)
            assert answer.status_code == status, into


async def test_what_is_not_there_is_404(owner_desk: OpenOwnerDesk) -> None:
    """A task of nobody's, and what is no number, is no page."""
    async with owner_desk() as at:
        for path in ("/tasks/1", "/tasks/x", f"/tasks/{2**63}", "/tasks/0"):
            assert (await at.visiting.get(path)).status_code == 404
        task = await file(at, "Dig")
        for form in ("/comments/1/retract", "/comments/x/retract"):
            answer = await at.visiting.post(f"/tasks/{task.id}{form}")
            assert answer.status_code == 404


async def test_the_pages_in_a_browser(
    owner_desk: OpenOwnerDesk, browser: Browser, tmp_path: Path
) -> None:
    """A task is filed, gated work is let begin, a comment is said and appears live, by any eyes."""
    async with owner_desk(**LISTED) as at:
        gated = await gate(at, "Book a table for the whole team and their families " * 4)
        url = at.server.node.config.public_url
        cookie = at.visiting.session.cookie
        async with browser.tab(url, session=cookie) as tab:
            await tab.go("/tasks/new")
            assert await tab.find_faults() == []
            await tab.fill("Title", "Water the garden")
            await tab.fill("Tags", "garden, In Box")
            await tab.press("File it")
            await tab.sees("in-box")
            assert await tab.find_faults() == []
            await tab.press("In progress")
            await tab.sees("in progress")
            await tab.fill("Say something", "Half done.")
            await tab.press("Comment")
            await tab.sees("Half done.")
            task_id = int((await tab.where()).rpartition("/")[2])
            await say(at, task_id, "Said by the chief.", by=at.chief)
            at.server.node.publish(at.db.touched)
            await tab.sees("Said by the chief.")
            await tab.press("Retract the comment of owner")
            await tab.sees("Retracted")
            await tab.go(f"/tasks/{gated.id}")
            assert await tab.find_faults() == []
            await tab.press("Remove the gate")
            await tab.reaches(f"/tasks/{gated.id}")
            assert (await get(at, gated.id)).gates == ()
            await tab.go("/tasks")
            assert await tab.find_faults() == []
        for width, dark, scripts in ((1280, False, True), (360, True, True), (360, False, False)):
            async with browser.tab(
                url, session=cookie, width=width, height=800, dark=dark, scripts=scripts
            ) as tab:
                for path in ("/tasks", "/tasks/new", f"/tasks/{gated.id}", f"/tasks/{task_id}"):
                    await tab.go(path)
                    assert await tab.overflow() <= 0, path
                    if scripts:
                        assert await tab.find_faults() == []
                    await tab.picture(tmp_path / f"{path.replace('/', '-')}-{width}-{dark}.png")
