"""The duties of a plugin that sends replies, while it lives."""

from functools import partial

from muster.clients.plugin_test.fake import Door, Late, Lose, Say
from muster.clients.plugin_test.posting import CLOCKS_SECONDS, RETRY_AFTER_SECONDS
from muster.clients.plugin_test.stage import Broken, Stage

CLAIM_LATE_SECONDS = 7.0
"""How late a claim's answer comes: a client must wait 10 s beyond the claim's own wait."""
CLAIM_WAIT_SECONDS_MAX = 25.0
SAME_RESULTS_MAX = 3


async def sends(stage: Stage) -> None:
    """An approved reply is sent once, as it is, and its result is reported."""
    external_id = await stage.receive()
    draft, mark = stage.approve(external_id)
    await stage.until_sent(mark, why="an approved reply was not sent")
    await stage.until_result(draft)
    await stage.quiet()
    await stage.require_once(mark, "the reply")
    if await stage.count(draft.body) != 1:
        raise Broken("what was sent is not the approved text")


async def claim_lost(stage: Stage) -> None:
    """After a claim whose answer was lost the plugin claims again, and reports nothing of it."""
    external_id = await stage.receive()
    stage.fake.fail(Door.CLAIM, Lose())
    lost, lost_mark = stage.approve(external_id)
    await stage.until(lambda: lost.draft_id in stage.fake.claimed, "the plugin does not claim")
    draft, mark = stage.approve(external_id)
    await stage.until_sent(mark, why="after a lost claim the next reply was not sent")
    await stage.until_result(draft)
    if lost.draft_id in stage.fake.results or await stage.count(lost_mark):
        raise Broken("a reply that never arrived was sent or reported")


async def claim_too_many(stage: Stage) -> None:
    """429 at a claim is obeyed."""
    external_id = await stage.receive()
    stage.fake.fail(
        Door.CLAIM, Say(status=429, code="too_many", retry_after_seconds=RETRY_AFTER_SECONDS)
    )
    # A claim that waits already is answered first: the fault is for the one after it.
    _, first = stage.approve(external_id)
    await stage.until_sent(first, why="an approved reply was not sent")
    claims = stage.fake.at_door
    await stage.until(
        lambda: any(came.status == 429 for came in claims(Door.CLAIM)[:-1]),
        "after a 429 the plugin did not claim again",
    )
    came = claims(Door.CLAIM)
    at = next(number for number, one in enumerate(came) if one.status == 429)
    waited = came[at + 1].at - came[at].at
    if waited < RETRY_AFTER_SECONDS - CLOCKS_SECONDS:
        raise Broken(f"Retry-After was {RETRY_AFTER_SECONDS} s, and it came after {waited:.2f} s")


async def claim_late(stage: Stage) -> None:
    """A claim's answer that comes 7 s after its wait is still taken."""
    external_id = await stage.receive()
    await stage.until(lambda: stage.fake.at_door(Door.CLAIM), "the plugin does not claim")
    stage.fake.fail(Door.CLAIM, Late(seconds=CLAIM_LATE_SECONDS))
    # A claim that waits already is not the late one, and then it takes the first reply.
    for _ in range(2):
        draft, mark = stage.approve(external_id)
        await stage.until(
            partial(stage.fake.results.__contains__, draft.draft_id),
            "a claim's late answer was not waited for",
            more_seconds=2 * CLAIM_WAIT_SECONDS_MAX + CLAIM_LATE_SECONDS,
        )
        await stage.require_once(mark, "the reply")
    if stage.fake.faults[Door.CLAIM]:
        raise Broken("the plugin claims no more")
    # The last claim may be waiting still; any other that was not answered was given up.
    *earlier, _ = stage.fake.at_door(Door.CLAIM)
    if any(came.status is None for came in earlier):
        raise Broken("it gave up on a claim before 10 s beyond its wait")


async def result_lost(stage: Stage) -> None:
    """A result whose answer was lost is reported again, the same, and nothing is sent again."""
    external_id = await stage.receive()
    stage.fake.fail(Door.RESULT, Lose())
    draft, mark = stage.approve(external_id)
    await stage.until(
        lambda: len(_results(stage, draft.draft_id)) >= 2,
        "a result whose answer was lost was not reported again",
        more_seconds=30,
    )
    first, second = _results(stage, draft.draft_id)[:2]
    if first != second:
        raise Broken("the repeated result is another one")
    await stage.quiet()
    await stage.require_once(mark, "the reply")


async def result_later(stage: Stage) -> None:
    """A result that muster cannot take now is reported when Retry-After is over."""
    external_id = await stage.receive()
    say = Say(status=503, code="unavailable", retry_after_seconds=RETRY_AFTER_SECONDS)
    stage.fake.fail(Door.RESULT, say)
    draft, mark = stage.approve(external_id)
    await stage.until(
        lambda: draft.draft_id in stage.fake.results,
        "after a 503 the result was not reported again",
        more_seconds=30,
    )
    first, again = stage.fake.at_door(Door.RESULT)[:2]
    if again.at - first.at < RETRY_AFTER_SECONDS - CLOCKS_SECONDS:
        raise Broken(f"Retry-After was {RETRY_AFTER_SECONDS} s, and it came sooner")
    await stage.require_once(mark, "the reply")


async def result_conflict(stage: Stage) -> None:
    """409 to a result is final: the plugin neither sends nor reports it again, and goes on."""
    external_id = await stage.receive()
    stage.fake.fail(Door.RESULT, Say(status=409, code="draft_state"))
    draft, mark = stage.approve(external_id)
    await stage.until(lambda: _results(stage, draft.draft_id), "no result was reported")
    following, following_mark = stage.approve(external_id)
    await stage.until_sent(following_mark, why="after a 409 the next reply was not sent")
    await stage.until_result(following)
    await stage.quiet()
    await stage.require_once(mark, "the reply")
    if len(_results(stage, draft.draft_id)) > SAME_RESULTS_MAX:
        raise Broken("a result that was refused for good is reported again and again")


async def same_draft_twice(stage: Stage) -> None:
    """A draft_id that comes a second time is not sent a second time."""
    external_id = await stage.receive()
    draft, mark = stage.approve(external_id)
    await stage.until_sent(mark, why="an approved reply was not sent")
    await stage.until_result(draft)
    stage.fake.offer(draft)
    await stage.until(
        lambda: stage.fake.claimed.count(draft.draft_id) == 2, "the plugin claims no more"
    )
    await _sends_another(stage, external_id)
    await stage.require_once(mark, "a reply that was offered twice")


async def _sends_another(stage: Stage, external_id: str) -> None:
    draft, mark = stage.approve(external_id)
    await stage.until_sent(mark, why="the next reply was not sent")
    await stage.until_result(draft)


def _results(stage: Stage, draft_id: int) -> list[dict[str, object]]:
    return [came.body for came in stage.fake.at_door(Door.RESULT) if came.draft_id == draft_id]
