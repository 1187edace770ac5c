"""Claims and results: at most once, and what is recorded (plugins: "At most once")."""

from datetime import timedelta
from typing import Any

import pytest

from muster.drafts.operations import State
from muster.errors import Invalid, NotFound, Refused
from muster.principals import Owner
from tests.support.builders import disable, make_message, make_plugin, read_now, revoke
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.reply_desk import ReplyDesk, open_desk

LEASE = timedelta(minutes=2)
WIDE = "\U0001f600"  # 4 bytes, 1 character


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk."""
    return await open_desk(db, owner)


@pytest.mark.rule(64, 67, 68, 69, 272, 278)
async def test_claim(desk: ReplyDesk) -> None:
    """A claim hands over exactly the approved text, leased for 2 minutes."""
    message = await desk.message()
    draft = await desk.draft(message, approved=True)
    claimed = await desk.claim()
    assert claimed is not None
    assert (claimed.draft_id, claimed.message_external_id) == (draft.id, message.external_id)
    assert (claimed.body, claimed.approved_at) == (draft.body, draft.approved_at)
    shown = await desk.view(draft.id)
    assert shown.state is State.APPROVED
    assert shown.claimed_at is not None
    assert shown.lease_expires_at == shown.claimed_at + LEASE
    assert (await desk.audit(draft.id))[-1].actor == desk.plugin.actor
    assert await desk.actions(draft.id) == ["filed", "approved", "claimed"]


@pytest.mark.rule(84, 86)
async def test_never_twice(desk: ReplyDesk) -> None:
    """What was claimed once is never offered again, not after its lease nor after its result."""
    for end in (None, False, True):
        draft = await desk.draft(claimed=True)
        assert await desk.claim() is None
        desk.db.clock_offset += LEASE
        assert await desk.claim() is None
        if end is not None:
            await desk.report(draft.id, ok=end)
        desk.db.clock_offset += timedelta(days=8)
        assert await desk.claim() is None


async def test_longest_approved_first(desk: ReplyDesk) -> None:
    """Claims go by the time of approval, one after the other."""
    first, second, third = [await desk.draft() for _ in range(3)]
    for draft in (second, third, first):
        await desk.approve(draft.id)
    order = [await desk.claim() for _ in range(4)]
    ids = [None if claimed is None else claimed.draft_id for claimed in order]
    assert ids == [second.id, third.id, first.id, None]


@pytest.mark.rule(63)
async def test_only_ones_own(desk: ReplyDesk) -> None:
    """A plugin claims replies to its own messages alone."""
    other = await make_plugin(desk.db, desk.owner)
    elsewhere = await open_desk(desk.db, await add_owner(desk.db))
    await desk.draft(approved=True)
    assert await desk.claim(other) is None
    assert await elsewhere.claim() is None
    assert await desk.claim() is not None


async def test_revoked_and_disabled(desk: ReplyDesk) -> None:
    """A claim that was let in before its plugin's or its account's end gets nothing after it."""
    other = await make_plugin(desk.db, desk.owner)
    message = await make_message(desk.db, other, delivered_to=desk.chief)
    await desk.draft(approved=True)
    await desk.draft(message, approved=True)
    await revoke(desk.db, desk.owner, desk.plugin)
    assert await desk.claim() is None
    await disable(desk.db, desk.owner)
    assert await desk.claim(other) is None


@pytest.mark.rule(273, 278)
@pytest.mark.parametrize("ok", [True, False])
async def test_result(desk: ReplyDesk, ok: bool) -> None:
    """A result is recorded with what it says, and told as sent or failed."""
    draft = await desk.draft(claimed=True)
    state = State.SENT if ok else State.FAILED
    reported = await desk.report(draft.id, ok=ok, external_ref="r-1", detail="")
    assert reported.state is state
    shown = await desk.view(draft.id)
    assert (shown.state, shown.external_ref, shown.detail) == (state, "r-1", "")
    assert shown.reported_at == shown.ended_at is not None
    row = (await desk.audit(draft.id))[-1]
    assert row.action == f"plugin.draft.{state.value}"
    assert row.data["late"] is False


@pytest.mark.rule(79, 82)
@pytest.mark.parametrize("ok", [True, False])
async def test_repeated_result(desk: ReplyDesk, ok: bool) -> None:
    """The same result again changes nothing; the other one is refused and names the first."""
    draft = await desk.draft(claimed=True)
    first = await desk.report(draft.id, ok=ok, external_ref="a", detail="b")
    again = await desk.report(draft.id, ok=ok, external_ref="c", detail="d")
    assert again == first
    with pytest.raises(Refused) as refusal:
        await desk.report(draft.id, ok=not ok)
    status = "sent" if ok else "failed"
    assert refusal.value.facts == {"draft_id": draft.id, "status": status}
    assert len(await desk.actions(draft.id)) == 4
    shown = await desk.view(draft.id)
    assert (shown.external_ref, shown.detail) == ("a", "b")


@pytest.mark.rule(83)
async def test_result_without_claim(desk: ReplyDesk) -> None:
    """A result for a draft of the plugin's that was never claimed is refused with its status."""
    pending = await desk.draft()
    waiting = await desk.draft(approved=True)
    rejected = await desk.draft()
    await desk.reject(rejected.id)
    for draft, status in (
        (pending, "pending"),
        (waiting, "approved"),
        (rejected, "rejected"),
    ):
        for ok in (True, False):
            with pytest.raises(Refused) as refusal:
                await desk.report(draft.id, ok=ok)
            assert refusal.value.facts == {"draft_id": draft.id, "status": status}
        assert (await desk.view(draft.id)).reported_at is None
    desk.db.clock_offset = timedelta(days=7)
    with pytest.raises(Refused) as refusal:
        await desk.report(pending.id, ok=True)
    assert refusal.value.facts["status"] == "expired"


@pytest.mark.rule(81)
async def test_result_of_another(desk: ReplyDesk) -> None:
    """There is no such reply for another plugin, another owner's plugin, or another number."""
    draft = await desk.draft(claimed=True)
    other = await make_plugin(desk.db, desk.owner)
    stranger = await open_desk(desk.db, await add_owner(desk.db))
    for plugin, draft_id in (
        (other, draft.id),
        (stranger.plugin, draft.id),
        (desk.plugin, 10**12),
    ):
        with pytest.raises(NotFound):
            await desk.report(draft_id, ok=True, plugin=plugin)
    assert (await desk.view(draft.id)).state is State.APPROVED


@pytest.mark.rule(76, 77, 80)
async def test_result_fields(desk: ReplyDesk) -> None:
    """A result's texts are exact at their edges: 200 characters and 4 KiB."""
    draft = await desk.draft(claimed=True)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"external_ref": "x" * 201}, "external_ref"),
        ({"external_ref": "\0"}, "external_ref"),
        ({"external_ref": "\ud800"}, "external_ref"),
        ({"detail": "x" * 4097}, "detail"),
        ({"detail": WIDE * 1024 + "x"}, "detail"),
        ({"detail": "a\0"}, "detail"),
    ]
    for fields, field in cases:
        with pytest.raises(Invalid) as refusal:
            await desk.report(draft.id, ok=True, **fields)
        assert refusal.value.field == field
    await desk.report(draft.id, ok=True, external_ref=WIDE * 200, detail=WIDE * 1024)
    shown = await desk.view(draft.id)
    assert (shown.external_ref, shown.detail) == (WIDE * 200, WIDE * 1024)


@pytest.mark.rule(85, 86, 90, 97, 274)
@pytest.mark.parametrize("ok", [True, False])
async def test_late_result(desk: ReplyDesk, ok: bool) -> None:
    """A lapsed claim is unconfirmed; its result still counts, on the draft it was claimed as."""
    message = await desk.message()
    lost = await desk.draft(message, claimed=True)
    desk.db.clock_offset = LEASE
    assert (await desk.view(lost.id)).state is State.UNCONFIRMED
    newer = await desk.draft(message)
    reported = await desk.report(lost.id, ok=ok)
    assert reported.state is (State.SENT if ok else State.FAILED)
    assert (await desk.audit(lost.id))[-1].data["late"] is True
    expected = ["filed", "approved", "claimed", "unconfirmed", "sent" if ok else "failed"]
    assert await desk.actions(lost.id) == expected
    shown = await desk.view(newer.id)
    assert shown.state is (State.SUPERSEDED if ok else State.PENDING)


async def test_late_result_before_any_sweep(desk: ReplyDesk) -> None:
    """A lapse that a late result finds is recorded before it."""
    draft = await desk.draft(claimed=True)
    desk.db.clock_offset = LEASE
    await desk.report(draft.id, ok=False)
    assert await desk.actions(draft.id) == ["filed", "approved", "claimed", "unconfirmed", "failed"]


@pytest.mark.rule(91, 276, 280)
@pytest.mark.parametrize("approved", [False, True])
async def test_sent_supersedes(desk: ReplyDesk, approved: bool) -> None:
    """A sent reply supersedes the pending or waiting one to its message, which names it."""
    message = await desk.message()
    lost = await desk.draft(message, claimed=True)
    desk.db.clock_offset = LEASE
    other = await desk.draft(message, approved=approved)
    elsewhere = await desk.draft(approved=approved)
    await desk.report(lost.id, ok=True)
    shown = await desk.view(other.id)
    assert (shown.state, shown.superseded_by) == (State.SUPERSEDED, lost.id)
    assert (shown.approved_at is not None) == approved
    row = (await desk.audit(other.id))[-1]
    assert (row.action, row.data["sent"]) == ("plugin.draft.superseded", lost.id)
    assert (await desk.view(elsewhere.id)).state is not State.SUPERSEDED
    claimed = await desk.claim()
    assert (claimed is not None) == approved
    assert claimed is None or claimed.draft_id == elsewhere.id


@pytest.mark.rule(92)
async def test_a_claim_keeps_what_it_holds(desk: ReplyDesk) -> None:
    """A reply that a claim holds is left to its own result when another one was sent."""
    message = await desk.message()
    lost = await desk.draft(message, claimed=True)
    desk.db.clock_offset = LEASE
    held = await desk.draft(message, claimed=True)
    await desk.report(lost.id, ok=True)
    assert (await desk.view(held.id)).state is State.APPROVED
    assert (await desk.report(held.id, ok=True)).state is State.SENT
    assert "superseded" not in await desk.actions(held.id)


@pytest.mark.rule(93)
async def test_failed_supersedes_nothing(desk: ReplyDesk) -> None:
    """A reply that was not sent leaves the others as they are."""
    message = await desk.message()
    lost = await desk.draft(message, claimed=True)
    desk.db.clock_offset = LEASE
    other = await desk.draft(message, approved=True)
    await desk.report(lost.id, ok=False)
    claimed = await desk.claim()
    assert claimed is not None
    assert claimed.draft_id == other.id


@pytest.mark.rule(277)
async def test_seven_days(desk: ReplyDesk) -> None:
    """A reply is claimed to the end of its 7 days; what is claimed does not expire."""
    first, second = await desk.draft(approved=True), await desk.draft(approved=True)
    await desk.set_clock(first.expires_at - timedelta(seconds=30))
    claimed = await desk.claim()
    assert claimed is not None
    assert claimed.draft_id == first.id
    await desk.set_clock(second.expires_at)
    assert await desk.claim() is None
    assert (await desk.view(first.id)).state is State.APPROVED
    assert (await desk.view(second.id)).state is State.EXPIRED
    assert (await desk.report(first.id, ok=True)).state is State.SENT
    assert await read_now(desk.db) > second.expires_at
