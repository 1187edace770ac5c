"""An SMTP server that takes everything and syncs it: `python -m bench.chaos.smtp_child ORDERS`.

Each mail that it takes is a line of its ledger: SENT, with the draft that its Message-ID names and
the mail that it answers. Now and then it refuses a recipient, drops the connection after the mail
was taken, so that its answer is lost, or dies before or after the taking.
"""

import email
import re
import signal
import threading
from email.policy import compat32
from typing import Any

import attrs
from aiosmtpd.controller import Controller

from bench.chaos.ledger import Ledger, What, read
from bench.chaos.mortal import Mortal, begin_life
from bench.chaos.orders import read_orders

REFUSES, LATER, DROPS = 0.03, 0.03, 0.04
DRAFT = re.compile(r"<muster-draft-(\d+)-")


@attrs.frozen(kw_only=True)
class Taking:
    """aiosmtpd calls these in a thread of its own, one at a time."""

    ledger: Ledger
    mortal: Mortal

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's own name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: list[str]
    ) -> str:
        """Take the recipient, or not."""
        if self.mortal.random.random() < REFUSES:
            return "550 5.1.1 Nobody lives here"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        """Take the mail, durably, and say so, or not."""
        self.mortal.reach("before a mail is taken")
        if self.mortal.random.random() < LATER:
            return "451 4.3.0 Try again later"
        mail = email.message_from_bytes(envelope.original_content, policy=compat32)
        message_id, answered = str(mail["Message-ID"]), str(mail["In-Reply-To"])
        draft = DRAFT.match(message_id)
        if draft is None:
            self.ledger.write(What.ODD, "smtp", detail=f"no draft's mail: {message_id}")
            return "554 5.6.0 This is no reply of muster's"
        self.ledger.write(
            What.SENT, "smtp", draft_id=int(draft[1]), external_id=answered, detail=message_id
        )
        self.mortal.reach("after a mail is taken")
        if self.mortal.random.random() < DROPS:
            server.transport.abort()
        return "250 2.0.0 OK: taken"


def main() -> None:
    """Serve until SIGTERM, or until it dies."""
    orders = read_orders()
    earlier = list(read(orders.ledger))
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with Ledger(orders.ledger) as ledger:
        taking = Taking(ledger=ledger, mortal=begin_life(ledger, orders, earlier))
        controller = Controller(taking, hostname="127.0.0.1", port=orders.port)
        controller.start()
        stopped.wait()
        controller.stop()


if __name__ == "__main__":
    main()
