"""What the plugins post, so that the chief's script does something different now and then."""

import random

from muster.clients.plugin import Message

RULES = """
[[rule]]
match = { no_reply = true }
nothing = true

[[rule]]
match = { subject = "^fail" }
fail = "the script says so"

[[rule]]
match = { subject = "^slow" }
reply = "Noon works, at last, number {message_id}."
wait_seconds = 0.5

[[rule]]
reply = "Noon works, number {message_id}."
"""
FAIL, SLOW, NO_REPLY = 0.03, 0.06, 0.03


def make_message(external_id: str) -> Message:
    """The message of this id, the same in each life and of each producer."""
    chance = random.Random(external_id).random()
    subject = "lunch"
    if chance < FAIL:
        subject = "fail"
    elif chance < FAIL + SLOW:
        subject = "slow"
    return Message(
        external_id=external_id,
        body="Does noon work for you? " * 8,
        sender="Ada <ada@example.test>",
        subject=subject,
        no_reply=chance > 1 - NO_REPLY,
    )
