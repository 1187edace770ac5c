"""What a verification says: a proof, or the doubt that stood in its way."""

import attrs


@attrs.frozen(kw_only=True)
class Doubt:
    """Why something proves nothing: a sentence without its full stop, for logs and checks."""

    reason: str


@attrs.frozen(kw_only=True)
class Proof:
    """Whether the From address is proven, and why or why not, as one sentence.

    `address` is the address that is proven, None when none is.
    """

    verified: bool
    reason: str
    address: str | None = None
