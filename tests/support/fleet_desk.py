"""A desk whose gate may ask for fleet reports, and sessions that are about something."""

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import attrs

from muster.drafts import operations as drafts
from muster.principals import Agent, Owner
from tests.support.agent_mail import GATE, MailDesk, mail_desk
from tests.support.builders import make_chief, read_now
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost

PATH = "/srv/example-work"
SETTINGS = {"MUSTER_FLEET_REPORT_SENDERS": GATE, "MUSTER_FLEET_REPORT_PATHS": PATH}


@attrs.frozen(kw_only=True)
class FleetDesk:
    """The desk of agent mail, and a chief that is not connected."""

    mail: MailDesk
    chief: Agent
    numbers: Iterator[int]

    async def window(self, **changes: str) -> dict[str, str]:
        """The last day and the next hour, as a request names a window."""
        now = await read_now(self.mail.db)
        since, until = now - timedelta(days=1), now + timedelta(hours=1)
        plain = {"since": since.isoformat(), "until": until.isoformat(), "zone": "Europe/Vienna"}
        return plain | changes

    async def request(self, **changes: object) -> str:
        """The body of a request."""
        plain = {
            "type": "fleet_report_request",
            "v": 1,
            "request_id": "r-1",
            "member": "ada",
            "window": await self.window(),
        }
        return json.dumps(plain | changes)

    async def ask(self, **fields: object) -> int:
        """A message from the gate, a request unless it has another body; its id."""
        known = {"external_id": f"m{next(self.numbers)}", "body": await self.request()}
        settings = self.mail.server.node.self_routing
        return await self.mail.receive(settings, **(known | fields))  # type: ignore[arg-type]

    async def claim(self) -> drafts.Claimed | None:
        """The plugin collects what is approved."""
        return await self.mail.db.run(self.mail.plugin, drafts.claim_next, drafts.ClaimNext())

    async def answered(self, **fields: object) -> dict[str, Any]:
        """What a request is answered, as the plugin collects it."""
        await self.ask(**fields)
        claimed = await self.claim()
        assert claimed is not None
        assert claimed.body.isascii()
        document: dict[str, Any] = json.loads(claimed.body)
        return document


async def focus(
    host: ScriptedHost,
    session: str,
    title: str,
    *,
    at: datetime,
    source: str = "summary",
    cwd: str | None = f"{PATH}/app",
) -> None:
    """A host tells what a session is about."""
    said = await host.say(
        "focus", claude_session=session, title=title, source=source, cwd=cwd, at=at.isoformat()
    )
    await host.until_acknowledged(said)


@asynccontextmanager
async def fleet_desk(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, **settings: str
) -> AsyncIterator[FleetDesk]:
    """Open a desk where the gate may ask, unless the settings say otherwise."""
    async with mail_desk(db, owner, cluster, **(SETTINGS | settings)) as mail:
        chief = await make_chief(db, owner)
        yield FleetDesk(mail=mail, chief=chief, numbers=itertools.count())
