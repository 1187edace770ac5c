"""A request for a fleet report is answered in code (plugins: "A fleet-report request").

No chief's turn and no owner stand in between: the message is handed to the chief without a turn and
settled, and its reply is filed as an approved draft, which the plugin's next claim sends. Who may
ask is the deployment's to list; what is told is muster/fleet/reports.py.
"""

from typing import Final

import attrs

from muster.chief.operations.routing.making import HandOver, hand_over_without_turn
from muster.chief.operations.settle import settle_locked
from muster.chief.self_routing.settings import AnswerRequest
from muster.drafts import operations as drafts
from muster.fleet.operations import MakeReport, make_report
from muster.fleet.requests import BadRequest, encode, read_request
from muster.messages.rules import Message, Settle
from muster.pg.database import Transaction
from muster.plugins.operations import name_plugins
from muster.routes.threads import AGENT_MAIL

VIA: Final = "fleet_report"
REASON: Final = "It asked for a fleet report, and muster answered it."
REFUSED: Final = "It asked for a fleet report that cannot be made, and muster said why."


@attrs.frozen(kw_only=True)
class FleetMail:
    """Who may ask, by exact addresses of agent mail, and which directories may be told of."""

    senders: frozenset[str]
    paths: tuple[str, ...]


def answering(settings: FleetMail) -> AnswerRequest:
    """What answers requests by these settings (muster.chief.operations.receiving)."""

    async def answer(tx: Transaction, message: Message) -> bool:
        return await answer_fleet_request(tx, message, settings)

    return answer


async def answer_fleet_request(tx: Transaction, message: Message, settings: FleetMail) -> bool:
    """As muster: answer a new message that asks for a fleet report; whether it was one.

    False leaves an ordinary message: of another plugin, of a sender who is not on the list or not
    proven, one that nobody may reply to, any other body, and while the owner has no chief. Leaves
    `plugin.delivered`, `plugin.message.settled`, `plugin.draft.filed` and `plugin.draft.approved`.
    """
    if message.no_reply or not message.sender_verified or message.sender not in settings.senders:
        return False
    asked = read_request(message.body)
    if asked is None:
        return False
    if (await name_plugins(tx, [message.plugin_id])).get(message.plugin_id) != AGENT_MAIL:
        return False
    handed = await hand_over_without_turn(tx, HandOver(message_id=message.id, how=VIA))
    if handed is None:
        return False
    assert handed.agent_id is not None, "it was handed to the chief"
    if isinstance(asked, BadRequest):
        body, reason = asked.body, REFUSED
    else:
        command = MakeReport(span=asked.span, request_id=asked.request_id, paths=settings.paths)
        body, reason = encode(await make_report(tx, command)), REASON
    await settle_locked(tx, handed, Settle(reason=reason))
    await _send(tx, handed.id, handed.agent_id, body)
    return True


async def _send(tx: Transaction, message_id: int, agent_id: int, body: str) -> None:
    filed = await drafts.file_for(
        tx,
        drafts.FileFor(
            reply=drafts.File(message_id=message_id, body=body, deny_words=frozenset()),
            agent_id=agent_id,
            decided=True,
            screened=False,
        ),
    )
    await drafts.approve(tx, drafts.Approve(draft_id=filed.draft.id, auto=True, auto_via=VIA))
