"""Who knocks: a door names the kind of credential it takes and refuses every other kind.

The credential is looked up anew at each request, so a revoked one and a disabled account are 401 at
once. What a door does not take is told apart by nothing: unknown, revoked, malformed, another kind.
"""

from collections.abc import Iterable

from muster.credentials import operations as credentials
from muster.credentials.rules import Knock, Known
from muster.errors import Unauthorized
from muster.ids import CredentialKind, digest, kind_of
from muster.node.node import Node
from muster.principals import Agent, Plugin, System

Headers = Iterable[tuple[bytes, bytes]]

_DOORS = {
    CredentialKind.PLUGIN: "a live plugin token (mpl_…)",
    CredentialKind.AGENT: "a live agent token (mag_…)",
}


def bearer_tokens(headers: Headers) -> list[str]:
    """Every bearer token that a request carries, however its scheme is spelled."""
    tokens = []
    for name, value in headers:
        if name.lower() != b"authorization":
            continue
        scheme, _, token = value.decode("latin-1").strip().partition(" ")
        if scheme.lower() == "bearer":
            tokens.append(token.strip())
    return tokens


async def prove(node: Node, headers: Headers, kind: CredentialKind) -> Known:
    """Tell who holds the one token of `headers`; raises Unauthorized for all but a live `kind`."""
    tokens = bearer_tokens(headers)
    known = None
    if len(tokens) == 1 and kind_of(tokens[0]) is kind:
        async with node.db.transaction(System(), look=True) as tx:
            known = await credentials.knock(tx, Knock(sha256=digest(tokens[0])))
    if known is None or known.kind is not kind:
        raise Unauthorized(f"This door takes {_DOORS[kind]} and nothing else.")
    node.seen.note(owner_id=known.owner_id, credential_id=known.credential_id)
    return known


async def prove_plugin(node: Node, headers: Headers) -> Plugin:
    """Take a plugin token and nothing else (plugins: "Two ways in")."""
    known = await prove(node, headers, CredentialKind.PLUGIN)
    return Plugin(
        owner_id=known.owner_id,
        plugin_id=known.holder_id,
        name=known.holder_name,
        credential_id=known.credential_id,
    )


async def prove_agent(node: Node, headers: Headers) -> Agent:
    """Take an agent token and nothing else."""
    known = await prove(node, headers, CredentialKind.AGENT)
    return Agent(
        owner_id=known.owner_id,
        agent_id=known.holder_id,
        name=known.holder_name,
        credential_id=known.credential_id,
    )
