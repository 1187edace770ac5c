"""What muster does by itself with a message, cancelled at every step: whole, or not there."""

import itertools
from collections.abc import AsyncIterator

import pytest

from actors.testing import cancel_at_every_step
from muster.chief.self_routing.resumed import Advance, advance
from muster.messages.operations import ListMessages, Message, list_messages
from muster.messages.rules import State as MessageState
from muster.mirror.operations.resuming import NoteAnswer, note_answer
from muster.mirror.resuming import Denied
from muster.principals import Owner
from muster.routes.authors import Did, ReportAuthor
from muster.routes.operations.authors import report_author
from muster.routes.operations.threads import BindThread, bind_thread, find_thread
from tests.support.agent_mail import MailDesk, mail_desk
from tests.support.builders import make_chief, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import new_session


@pytest.fixture
async def desk(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[MailDesk]:
    """The owner's desk, with a chief."""
    async with mail_desk(db, owner, cluster) as opened:
        await make_chief(db, owner)
        yield opened


async def all_mail(desk: MailDesk) -> list[Message]:
    """The owner's messages, newest first."""
    return await desk.db.run(desk.owner, list_messages, ListMessages(limit=1000))


@pytest.mark.rule(350)
async def test_a_message_is_routed_whole_or_not_stored(desk: MailDesk) -> None:
    """The message, its hand-over, its route, its paste and its audit rows are there together."""
    numbers = itertools.count()
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)
        await host.show(session, state="working")

        async def receive() -> None:
            await desk.receive(thread="t-1", external_id=f"m{next(numbers)}")

        async def check(completed: bool) -> None:
            stored = await all_mail(desk)
            assert stored or not completed
            assert {one.state for one in stored} <= {MessageState.DELIVERED}
            assert len(await desk.routes()) == len(stored)
            assert await desk.sends() == ["queued"] * len(stored)
            for action in ("plugin.message.received", "plugin.delivered", "session_route.routed"):
                assert len(await read_audit(desk.db, desk.owner, action)) == len(stored)

        assert await cancel_at_every_step(receive, check) >= 4


@pytest.mark.rule(390)
async def test_a_message_waits_with_its_resume_or_is_not_stored(desk: MailDesk) -> None:
    """The message is held exactly when its row of a resume is there."""
    numbers = itertools.count()
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)
        await host.show()

        async def receive() -> None:
            await desk.receive(thread="t-1", external_id=f"m{next(numbers)}")

        async def check(completed: bool) -> None:
            stored = await all_mail(desk)
            assert stored or not completed
            held = {one.id for one in stored if one.held_until is not None}
            assert held == {one.id for one in stored}
            assert {row.message_id for row in await desk.resumes()} == held
            wanted = await read_audit(desk.db, desk.owner, "mail_resume.wanted")
            assert len(wanted) == len(stored)

        assert await cancel_at_every_step(receive, check) >= 4


@pytest.mark.rule(391)
async def test_a_resume_ends_with_its_message_given_back_or_goes_on(desk: MailDesk) -> None:
    """Cancelled in between, the message is still held and the row still open."""
    numbers = itertools.count()

    async def prepare() -> int:
        session = new_session()
        number = next(numbers)
        async with desk.host(session, name=f"box-{number}") as host:
            await desk.bind(session, f"t-{number}")
            await host.show()
            message_id = await desk.receive(thread=f"t-{number}", external_id=f"m{number}")
            await host.hear("resume")
            (row,) = [row for row in await desk.resumes() if row.message_id == message_id]
        return row.id

    resume_id = await prepare()

    async def step() -> None:
        (row,) = [row for row in await desk.resumes() if row.id == resume_id]
        assert row.host_id is not None
        answer = NoteAnswer(resume_id=resume_id, answer=Denied(host_id=row.host_id, why="No."))
        await desk.db.run(desk.muster, note_answer, answer)
        await desk.db.run(desk.muster, advance, Advance(resume_id=resume_id, node="none"))

    async def check(completed: bool) -> None:
        (row,) = [row for row in await desk.resumes() if row.id == resume_id]
        is_over = row.state == "refused"
        assert is_over or not completed
        assert await desk.is_ordinary(row.message_id) is is_over

    assert await cancel_at_every_step(step, check) >= 4


@pytest.mark.rule(348, 355)
async def test_reports_of_hooks_are_all_or_nothing(desk: MailDesk) -> None:
    """A bound thread has its audit row, and an authorship is there or not."""
    session = new_session()
    numbers = itertools.count()
    async with desk.host(session):

        async def report() -> None:
            number = next(numbers)
            bind = BindThread(thread=f"t-{number}", claude_session=session)
            await desk.db.run(desk.owner, bind_thread, bind)
            author = ReportAuthor(
                repo="a/b", kind=Did.PUSHED, claude_session=session, head_ref=f"r-{number}"
            )
            await desk.db.run(desk.owner, report_author, author)

        async def check(completed: bool) -> None:
            bound = 0
            async with desk.db.transaction(desk.owner) as tx:
                for number in range(100):
                    bound += await find_thread(tx, f"t-{number}") is not None
            assert bound or not completed
            facts = await read_audit(desk.db, desk.owner, "plugin_thread.bound")
            assert len(facts) == bound

        assert await cancel_at_every_step(report, check) >= 4
