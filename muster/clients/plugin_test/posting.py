"""The duties of a plugin that brings messages in."""

from muster.clients.plugin_test.fake import Door, Lose, Say
from muster.clients.plugin_test.stage import Broken, Stage

RETRY_AFTER_SECONDS = 2
CLOCKS_SECONDS = 0.05
"""How much two clocks of one machine may differ."""
REFUSED_POSTS_MAX = 3
OVER_SIZE_CHARACTERS = 20_000


async def posts(stage: Stage) -> None:
    """A message arrives, and once."""
    mark = await stage.bring()
    await stage.start()
    await stage.until_stored(mark)
    second = await stage.bring()
    await stage.until_stored(second)
    await stage.quiet()
    for each in (mark, second):
        ids = {came.body["external_id"] for came in stage.posts_of(each)}
        if len(ids) != 1:
            raise Broken(f"one message came under {len(ids)} external_ids")
    statuses = {came.status for came in stage.posts_of(mark)}
    if not statuses <= {200, 202}:
        raise Broken(f"a message was refused: {statuses}")


async def answer_lost(stage: Stage) -> None:
    """A post whose answer was lost is sent again."""
    stage.fake.fail(Door.MESSAGES, Lose())
    mark = await stage.bring()
    await stage.start()
    await stage.until(
        lambda: len(stage.posts_of(mark)) >= 2,
        "a post whose answer was lost was not sent again",
    )
    first, second = stage.posts_of(mark)[:2]
    if first.body.get("external_id") != second.body.get("external_id"):
        raise Broken("the repeat has another external_id, so muster would store it twice")


async def killed_in_post(stage: Stage) -> None:
    """A plugin that was killed before a post's answer sends it again when it is back."""
    stage.fake.before = lambda door: stage.child.kill() if door is Door.MESSAGES else None
    mark = await stage.bring()
    await stage.start()
    await stage.child.ended(stage.patience_seconds)
    if not stage.posts_of(mark):
        raise Broken("a message in the inbox never came")
    stage.fake.before = None
    await stage.start()
    await stage.until(
        lambda: len(stage.posts_of(mark)) >= 2, "after the kill the message was not sent again"
    )
    if len({came.body.get("external_id") for came in stage.posts_of(mark)}) != 1:
        raise Broken("after the kill the message came under another external_id")


async def too_many(stage: Stage) -> None:
    """429 is obeyed: nothing is posted before Retry-After is over, and then it is."""
    stage.fake.fail(
        Door.MESSAGES,
        Say(status=429, code="messages_per_hour", retry_after_seconds=RETRY_AFTER_SECONDS),
    )
    mark = await stage.bring()
    await stage.start()
    await stage.until(
        lambda: len(stage.fake.at_door(Door.MESSAGES)) >= 2, "after a 429 nothing was posted again"
    )
    refused, again = stage.fake.at_door(Door.MESSAGES)[:2]
    waited = again.at - refused.at
    if waited < RETRY_AFTER_SECONDS - CLOCKS_SECONDS:
        raise Broken(f"Retry-After was {RETRY_AFTER_SECONDS} s, and it came after {waited:.2f} s")
    await stage.until_stored(mark)


async def cursor_still(stage: Stage) -> None:
    """On 5xx the cursor stands still, over a restart too."""
    stage.fake.fail(Door.MESSAGES, *[Say(status=503, code="unavailable")] * 50)
    mark = await stage.bring()
    await stage.start()
    await stage.until(
        lambda: bool(stage.fake.at_door(Door.MESSAGES)), "a message in the inbox never came"
    )
    await stage.quiet()
    await stage.kill()
    stage.fake.faults.clear()
    await stage.start()
    await stage.until_stored(mark)


async def over_size(stage: Stage) -> None:
    """A message that muster refuses holds up no other, and is not posted for ever."""
    large = await stage.bring(characters=OVER_SIZE_CHARACTERS)
    small = await stage.bring()
    await stage.start()
    await stage.until_stored(small)
    await stage.quiet()
    refused = [came for came in stage.posts_of(large) if came.status == 400]
    if len(refused) > REFUSED_POSTS_MAX:
        raise Broken(f"a message that muster refuses was posted {len(refused)} times")
    if stage.stored_id(large) is not None:
        stage.notes.append("the plugin fits what is too long, instead of having it refused")
    elif not refused:
        stage.notes.append("the plugin does not post what is too long")


async def token_dead(stage: Stage) -> None:
    """A token that opens no door any more is not knocked with again and again."""
    knocks_max = 10
    stage.fake.token = "mpl_another"  # noqa: S105 - the plugin has the one before
    await stage.bring()
    await stage.start()
    await stage.quiet(3.0)
    if stage.fake.turned_away > knocks_max:
        raise Broken(f"it knocked {stage.fake.turned_away} times in 3 s")
    if stage.fake.turned_away == 0 and stage.child.code is None:
        await stage.until(lambda: stage.fake.turned_away, "the plugin never knocked")
