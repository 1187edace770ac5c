"""What a new owner has done already of what brings a first message to their chief."""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class FirstSteps:
    """A live plugin and the chief by name, if there are such; whether that chief ever connected.

    `has_message`: a message came in once, whatever became of it.
    """

    plugin: str | None
    chief: str | None
    chief_came: bool
    has_message: bool

    @property
    def are_left(self) -> bool:
        """Whether one of the steps is still to be done."""
        return not (self.plugin and self.chief and self.chief_came and self.has_message)


# Each look goes through an index and ends at its first row: plugins_live_name_key,
# agents_chief_key and the owner's messages.
FIND_FIRST_STEPS = Query("""
    select
        (
            select p.name from plugins p
            where p.owner_id = %(owner_id)s and p.revoked_at is null
            order by p.name limit 1
        ) as plugin,
        chief.name as chief,
        coalesce(chief.epoch > 0, false) as chief_came,
        exists (select from messages m where m.owner_id = %(owner_id)s) as has_message
    from (select) one
    left join agents chief
        on chief.owner_id = %(owner_id)s and chief.chief and chief.retired_at is null
""")


async def find_first_steps(tx: Transaction) -> FirstSteps:
    """Which of the steps are done, by what the owner has now."""
    return await tx.one(FIND_FIRST_STEPS, FirstSteps)
