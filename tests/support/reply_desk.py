"""A desk with an owner, a plugin and a chief, and the verbs of drafts in short."""

from datetime import datetime

import attrs

from muster.drafts import operations as drafts
from muster.drafts.operations import Claimed, Draft, DraftView
from muster.messages.rules import Message
from muster.pg.audit import AuditRow
from muster.principals import Agent, Muster, Owner, Plugin
from tests.support.builders import (
    make_chief,
    make_draft,
    make_message,
    make_plugin,
    read_audit,
    read_now,
)
from tests.support.cluster import SpiedDatabase


@attrs.frozen(kw_only=True)
class ReplyDesk:
    """What most tests of drafts begin with."""

    db: SpiedDatabase
    owner: Owner
    plugin: Plugin
    chief: Agent

    @property
    def muster(self) -> Muster:
        """The principal of deliveries and sweeps."""
        return Muster(owner_id=self.owner.owner_id)

    async def message(self) -> Message:
        """A new message, delivered to the chief."""
        return await make_message(self.db, self.plugin, delivered_to=self.chief)

    async def draft(
        self, message: Message | None = None, *, approved: bool = False, claimed: bool = False
    ) -> Draft:
        """A new draft, to a new message unless one is given."""
        return await make_draft(
            self.db,
            self.chief,
            message or await self.message(),
            approved_by=self.owner if approved or claimed else None,
            claimed_by=self.plugin if claimed else None,
        )

    async def approve(self, draft_id: int, sha256: str | None = None) -> Draft:
        """The owner lets it go."""
        command = drafts.Approve(draft_id=draft_id, sha256=sha256)
        return await self.db.run(self.owner, drafts.approve, command)

    async def reject(self, draft_id: int, sha256: str | None = None) -> Draft:
        """The owner says no."""
        command = drafts.Reject(draft_id=draft_id, sha256=sha256)
        return await self.db.run(self.owner, drafts.reject, command)

    async def claim(self, plugin: Plugin | None = None) -> Claimed | None:
        """The plugin, or another, takes what is approved."""
        return await self.db.run(plugin or self.plugin, drafts.claim_next, drafts.ClaimNext())

    async def report(
        self,
        draft_id: int,
        *,
        ok: bool,
        external_ref: str | None = None,
        detail: str | None = None,
        plugin: Plugin | None = None,
    ) -> Draft:
        """The plugin, or another, says what came of it."""
        command = drafts.Report(draft_id=draft_id, ok=ok, external_ref=external_ref, detail=detail)
        return await self.db.run(plugin or self.plugin, drafts.report, command)

    async def view(self, draft_id: int) -> DraftView:
        """The draft as it stands."""
        return await self.db.run(self.owner, drafts.get_draft, draft_id)

    async def audit(self, draft_id: int) -> list[AuditRow]:
        """What was recorded of the draft, oldest first."""
        rows = await read_audit(self.db, self.owner, "plugin.draft.")
        return [row for row in rows if row.subject == f"draft:{draft_id}"]

    async def actions(self, draft_id: int) -> list[str]:
        """What was done to the draft, oldest first."""
        return [row.action.removeprefix("plugin.draft.") for row in await self.audit(draft_id)]

    async def set_clock(self, at: datetime) -> None:
        """Move the test's clock to just after `at`."""
        self.db.clock_offset += at - await read_now(self.db)


async def open_desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk of this owner's."""
    plugin = await make_plugin(db, owner)
    return ReplyDesk(db=db, owner=owner, plugin=plugin, chief=await make_chief(db, owner))
