"""Whether a mail's From address is proven to have sent it (plugins: "sender_verified").

    raw -> one address that could be proven at all (sender.py, lookalike.py, head.py)
        -> a DMARC pass that our own server wrote down (results.py), or
        -> an aligned DKIM signature that holds (signatures.py, keys.py, dkim_proof.py, resolver.py)

Everything else leaves the sender unproven: SPF, ARC, DKIM of another domain, no answer of DNS, and
whatever can be read in two ways. Nothing here raises for anything that a mail or DNS says. A mail
costs at most 5 signatures, 10 seconds of DNS, and time in proportion to its length on a thread.

Rejected: asking for the domain's DMARC policy (an aligned signature is what makes DMARC pass,
whatever the policy says); SPF from the envelope (it proves Return-Path, which nobody is shown).
"""

import time
from collections.abc import Callable
from functools import partial

import attrs
import trio

from muster.clients.mail.verify.dkim_proof import prove_by_signature
from muster.clients.mail.verify.proof import Doubt, Proof
from muster.clients.mail.verify.resolver import Resolver
from muster.clients.mail.verify.results import prove_by_results
from muster.clients.mail.verify.sender import Provable, find_provable
from muster.clients.mail.verify.signatures import Signature, find_signatures

__all__ = ["Proof", "Verifier"]

DNS_SECONDS_MAX = 10.0
"""How long DNS may take for one mail, all its signatures together."""

Records = tuple[bytes, ...] | Doubt


@attrs.frozen(kw_only=True)
class Verifier:
    """Proves From addresses; fits `Reading.verify`.

    `authserv_ids` are the mail servers of one's own whose topmost Authentication-Results is
    believed; each must put one on every mail, or remove those that carry its name. Without
    `resolver` signatures are not checked.
    """

    authserv_ids: tuple[str, ...] = ()
    resolver: Resolver | None = None
    clock: Callable[[], float] = time.time
    dns_seconds_max: float = DNS_SECONDS_MAX

    async def __call__(self, raw: bytes) -> bool:
        """Whether the From address of a whole raw mail is proven."""
        return (await self.explain(raw)).verified

    async def explain(self, raw: bytes) -> Proof:
        """The same with the reason, for logs, tests and `muster mail check`."""
        found = await trio.to_thread.run_sync(find_provable, raw)
        if isinstance(found, Doubt):
            return Proof(verified=False, reason=_sentence(found.reason))
        doubts: list[str] = []
        if self.authserv_ids:
            server = prove_by_results(
                found.head, domain=found.domain, authserv_ids=self.authserv_ids
            )
            if not isinstance(server, Doubt):
                return _proof(found, f"{server} says that DMARC passed for {found.domain}.")
            doubts.append(server.reason)
        if self.resolver is not None:
            signer = await self._signer(found, self.resolver)
            if not isinstance(signer, Doubt):
                return _proof(found, f"A signature of {signer} covers it.")
            doubts.append(signer.reason)
        reason = "; ".join(doubts) or "nothing is set up that could prove a sender"
        return Proof(verified=False, reason=_sentence(reason))

    async def _signer(self, found: Provable, resolver: Resolver) -> str | Doubt:
        """The domain whose signature holds, or why there is none."""
        signatures, doubts = find_signatures(found.head, domain=found.domain, now=self.clock())
        if not signatures and doubts:
            return doubts[0]
        late = Doubt(reason="DNS gave no answer in time")
        keys: dict[Signature, Records] = dict.fromkeys(signatures, late)

        async def look_up(signature: Signature) -> None:
            keys[signature] = await resolver.find_txt(signature.key_name)

        # Side by side, so that a name that never answers does not take the time of the others.
        with trio.move_on_after(self.dns_seconds_max):
            async with trio.open_nursery() as nursery:
                for signature in signatures:
                    nursery.start_soon(look_up, signature)
        return await trio.to_thread.run_sync(
            partial(prove_by_signature, found.head, tuple(keys.items()))
        )


def _proof(found: Provable, reason: str) -> Proof:
    return Proof(verified=True, reason=reason, address=found.mailbox.address)


def _sentence(reason: str) -> str:
    return f"{reason[0].upper()}{reason[1:]}."
