"""What a plugin may never do: send a reply twice, wherever it is killed; and how it ends."""

import signal
from collections.abc import Awaitable, Callable

import trio

from muster.clients.plugin_test.fake import Door, Draft, Hold
from muster.clients.plugin_test.stage import Broken, Stage

END_SECONDS = 10.0
ENDED_WELL = (0, 128 + signal.SIGTERM)
BUSY_SECONDS = 0.01


def killed_after_claim(seconds: float) -> Callable[[Stage], Awaitable[None]]:
    """Kill it so long after a claim was answered."""

    async def run(stage: Stage) -> None:
        external_id = await stage.receive()
        answered = trio.Event()
        stage.fake.after = _when(Door.CLAIM, 200, answered.set)
        if seconds == 0:
            stage.fake.after = _when(Door.CLAIM, 200, stage.child.kill, answered.set)
        draft, mark = stage.approve(external_id)
        await stage.until(answered.is_set, "an approved reply was not claimed")
        await trio.sleep(seconds)
        await stage.kill()
        await _back_again(stage, external_id, draft, mark)

    return run


async def killed_at_send(stage: Stage) -> None:
    """Kill it as soon as the reply lies in the outbox."""
    external_id = await stage.receive()
    draft, mark = stage.approve(external_id)
    await stage.until_sent(mark, why="an approved reply was not sent", close=True)
    await stage.kill()
    await _back_again(stage, external_id, draft, mark)


async def killed_at_result(stage: Stage) -> None:
    """Kill it when its result has arrived and is not answered."""
    external_id = await stage.receive()
    stage.fake.fail(Door.RESULT, Hold())
    stage.fake.before = lambda door: stage.child.kill() if door is Door.RESULT else None
    draft, mark = stage.approve(external_id)
    await stage.child.ended(stage.patience_seconds)
    if stage.child.code is None:
        raise Broken("no result was reported")
    await _back_again(stage, external_id, draft, mark)
    await stage.require_once(mark, "the reply")
    reported = [came for came in stage.fake.at_door(Door.RESULT) if came.draft_id == draft.draft_id]
    if len(reported) == 1:
        stage.notes.append("the result was not reported again after the kill")


async def killed_after_result(stage: Stage) -> None:
    """Kill it when its result was answered."""
    external_id = await stage.receive()
    stage.fake.after = _when(Door.RESULT, 200, stage.child.kill)
    draft, mark = stage.approve(external_id)
    await stage.child.ended(stage.patience_seconds)
    if stage.child.code is None:
        raise Broken("no result was reported")
    await _back_again(stage, external_id, draft, mark)
    await stage.require_once(mark, "the reply")


async def stops_idle(stage: Stage) -> None:
    """SIGTERM while it waits: it ends by itself, within 10 s."""
    await stage.receive()
    await stage.until(lambda: stage.fake.at_door(Door.CLAIM), "the plugin does not claim")
    await _stop(stage)


async def stops_busy(stage: Stage) -> None:
    """SIGTERM while it has a reply in hand: it ends by itself, and nothing is sent twice."""
    external_id = await stage.receive()
    answered = trio.Event()
    stage.fake.after = _when(Door.CLAIM, 200, answered.set)
    draft, mark = stage.approve(external_id)
    await stage.until(answered.is_set, "an approved reply was not claimed")
    await trio.sleep(BUSY_SECONDS)
    await _stop(stage)
    await _back_again(stage, external_id, draft, mark)


async def _stop(stage: Stage) -> None:
    stage.child.signal(signal.SIGTERM)
    code = await stage.child.ended(END_SECONDS)
    if code is None:
        raise Broken(f"it still runs {END_SECONDS:g} s after SIGTERM")
    if code == -signal.SIGTERM:
        raise Broken("it does not heed SIGTERM, which ended it wherever it was")
    if code not in ENDED_WELL:
        raise Broken(f"after SIGTERM it ended with code {code}")


async def _back_again(stage: Stage, external_id: str, draft: Draft, mark: str) -> None:
    """Start it again; once it has sent another reply, the first must not lie there twice."""
    stage.fake.after = stage.fake.before = None
    await stage.start()
    another, another_mark = stage.approve(external_id)
    await stage.until_sent(another_mark, why="after its restart the next reply was not sent")
    await stage.until_result(another)
    await stage.quiet()
    count = await stage.count(mark)
    if count > 1:
        raise Broken(f"the reply lies in the outbox {count} times")
    await stage.require_once(another_mark, "the reply after the restart")
    result = stage.fake.results.get(draft.draft_id)
    if result is not None and result["ok"] is not bool(count):
        raise Broken(f"its result says ok: {result['ok']}, and it was sent {count} times")
    if result is None:
        sent = "was sent" if count else "was not sent"
        stage.notes.append(f"it {sent} and not reported: muster shows it as unconfirmed")


def _when(door: Door, status: int, *calls: Callable[[], None]) -> Callable[[Door, int], None]:
    """Call these, once, in the moment in which an answer leaves."""
    left = list(calls)

    def leaving(which: Door, told: int) -> None:
        while left and which is door and told == status:
            left.pop(0)()

    return leaving
