"""Who knocks: a door names the kind of credential it takes and refuses every other kind.

The credential is looked up anew at each request, so a revoked one and a disabled account are 401 at
once. What a door does not take is told apart by nothing: unknown, revoked, malformed, another kind.

`/api/*` takes a person's own token, and on the hook routes the token that programs of one machine
share (MUSTER_HOOK_TOKEN), which acts as MUSTER_HOOK_OWNER. The cookie of a browser counts for
nothing there: no program's door looks at it.
"""

import hmac
from collections.abc import Iterable

from muster.accounts.operations import find_live_user
from muster.accounts.rules import FindUser
from muster.credentials import operations as credentials
from muster.credentials.rules import Knock, Known, Scope
from muster.errors import Forbidden, Refused, Unauthorized
from muster.ids import CredentialKind, digest, kind_of
from muster.node.node import Node
from muster.principals import Agent, MirrorHost, Owner, Plugin, System

Headers = Iterable[tuple[bytes, bytes]]

_DOORS = {
    CredentialKind.PLUGIN: "a live plugin token (mpl_…)",
    CredentialKind.AGENT: "a live agent token (mag_…)",
    CredentialKind.MIRROR_HOST: "a live mirror host's token (mmh_…)",
    CredentialKind.PERSONAL: "a live personal token (mst_…)",
}


def bearer_tokens(headers: Headers) -> list[str]:
    """Every bearer token that a request carries, however its scheme is spelled."""
    tokens = []
    for name, value in headers:
        if name.lower() != b"authorization":
            continue
        scheme, _, token = value.decode("latin-1").replace("\t", " ").strip().partition(" ")
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


async def prove_host(node: Node, headers: Headers) -> MirrorHost:
    """Take a mirror host's token and nothing else."""
    known = await prove(node, headers, CredentialKind.MIRROR_HOST)
    return MirrorHost(
        owner_id=known.owner_id,
        host_id=known.holder_id,
        name=known.holder_name,
        credential_id=known.credential_id,
    )


async def prove_api(node: Node, headers: Headers, *, hook: bool, write: bool) -> Owner:
    """Take a person's own token, and the shared hook token where `hook` says so.

    Raises Unauthorized for every other credential and Forbidden (code `scope`) when the token may
    only read and the route `write`s.
    """
    if hook and _is_hook_token(node, bearer_tokens(headers)):
        return await _hook_owner(node)
    known = await prove(node, headers, CredentialKind.PERSONAL)
    if write and known.scope is not Scope.WRITE:
        raise Forbidden("This token may read and change nothing.", code="scope")
    return Owner(owner_id=known.owner_id, via=f"token {known.holder_name}")


def _is_hook_token(node: Node, tokens: list[str]) -> bool:
    secret = node.config.hook_token
    if secret is None or len(tokens) != 1:
        return False
    return hmac.compare_digest(tokens[0].encode(), secret.encode())


async def _hook_owner(node: Node) -> Owner:
    name = node.config.hook_owner
    assert name is not None, "the configuration has both or none"
    async with node.db.transaction(System(), look=True) as tx:
        found = await find_live_user(tx, FindUser(name=name))
    if found is None:
        raise Refused(
            f"MUSTER_HOOK_OWNER names {name}, and there is no live account of that name.",
            code="hook_owner_unknown",
        )
    return Owner(owner_id=found.id, via="hook")
