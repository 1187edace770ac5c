"""Signing in, from the first look to the session: what takes time stands between transactions.

Each proof begins with an attempt that is counted (`rules.attempts`), goes on with the same work for
every name, and ends in one transaction as the owner. So an unknown name, a wrong password, an
account without a password and a disabled one are told apart by nothing: one hash is compared, and
the answer is the same. For an unknown name the owner is 0, whose account nobody has.
"""

from typing import Final

import attrs

from muster.accounts.operations import find_user, links, next_user_id
from muster.accounts.operations.attempts import BeginAttempt, begin_attempt
from muster.accounts.operations.challenges import Ceremony, begin_ceremony, take_challenge
from muster.accounts.operations.passkeys import (
    AddPasskey,
    Answered,
    add_passkey,
    find_holder,
    handle_of,
    known_ids,
)
from muster.accounts.operations.sessions import (
    Opened,
    Visitor,
    find_browser,
    find_known,
    find_known_by_passkey,
)
from muster.accounts.operations.signing import (
    ProvenPassword,
    SetPassword,
    SignInByPasskey,
    SignInByPassword,
    StepUp,
    read_hash,
    set_password,
    sign_in_by_passkey,
    sign_in_by_password,
    step_up,
    wrong,
)
from muster.accounts.operations.stepup import after_step_up
from muster.accounts.passkeys import (
    Site,
    check_creation,
    creation_options,
    credential_id_of,
    refused,
    request_options,
    site_of,
)
from muster.accounts.passwords import hash_password, verify_password
from muster.accounts.rules import AddUser, FindUser, check
from muster.accounts.rules.attempts import account_key, session_keys
from muster.accounts.rules.signing import Browser, Passkey, check_passkey_name, check_time_zone
from muster.ids import digest
from muster.names import check_name
from muster.pg.database import Database
from muster.principals import Node, Owner, System

_NOBODY: Final = 0


@attrs.frozen(kw_only=True)
class Question:
    """What a page asks an authenticator (JSON), and the cookie that the answer comes back with."""

    options: str
    cookie: str = attrs.field(repr=False)


def _owner(owner_id: int) -> Owner:
    return Owner(owner_id=owner_id, via="browser")


async def sign_in_with_password(
    db: Database, *, name: str, password: str, browser: Browser
) -> Opened:
    """Open a session for a name and its password.

    Raises TooMany, or Unauthorized (`sign_in_refused`) for all that opens no account.
    """
    # What is counted is what is looked up: no name may have a second spelling with its own count.
    name = name.replace("\0", "")
    async with db.transaction(System(), look=True) as tx:
        known_id = await find_known(tx, cookie=browser.known_by, name=name)
    attempt = BeginAttempt(account=account_key(name), address=browser.address, session_id=known_id)
    owner, proven = await _prove_password(db, name=name, password=password, attempt=attempt)
    command = SignInByPassword(proven=proven, browser=browser)
    return await db.run(owner, sign_in_by_password, command)


async def step_up_with_password(
    db: Database, visitor: Visitor, *, password: str, address: str
) -> None:
    """Make the visitor's session fresh by their password; raises as signing in does.

    It is counted by the session alone, wherever its browser is now.
    """
    name, session_id = visitor.name, visitor.session_id
    attempt = BeginAttempt(account=account_key(name), address=address, session_id=session_id)
    owner, proven = await _prove_password(db, name=name, password=password, attempt=attempt)
    await db.run(owner, step_up, StepUp(session_id=visitor.session_id, proof=proven))


async def _prove_password(
    db: Database, *, name: str, password: str, attempt: BeginAttempt
) -> tuple[Owner, ProvenPassword]:
    attempt_id = await db.run(Node(), begin_attempt, attempt)
    async with db.transaction(System(), look=True) as tx:
        found = await find_user(tx, FindUser(name=name))
    owner = _owner(_NOBODY if found is None else found.id)
    async with db.transaction(owner, look=True) as tx:
        password_hash = await read_hash(tx)
    verdict = await verify_password(password_hash, password)
    if not verdict.right or password_hash is None:
        raise wrong()
    return owner, ProvenPassword(
        password_hash=password_hash, rehashed=verdict.rehashed, attempt_id=attempt_id
    )


async def ask_to_sign_in(
    db: Database, *, public_url: str, address: str, known_by: str = ""
) -> Question:
    """What a browser asks for to sign somebody in: any passkey of this site's.

    The questions of a known browser are its own; those of others are counted by their address.
    """
    async with db.transaction(System(), look=True) as tx:
        known_id = await find_browser(tx, known_by)
    counted = address if known_id is None else session_keys(known_id)[1]
    ceremony = await db.run(Node(), begin_ceremony, counted)
    return Question(
        options=request_options(site_of(public_url), challenge=ceremony.challenge),
        cookie=ceremony.cookie,
    )


async def sign_in_with_passkey(
    db: Database, *, public_url: str, answer: str, cookie: str, browser: Browser
) -> Opened:
    """Open a session for a passkey's answer.

    Raises TooMany, Invalid when the question is not open any more, Unauthorized for all else.
    """
    credential_id = credential_id_of(answer)
    challenge = await db.run(Node(), take_challenge, cookie)
    async with db.transaction(System(), look=True) as tx:
        known_id = await find_known_by_passkey(
            tx, cookie=browser.known_by, credential_id=credential_id
        )
    attempt_id = await _begin_passkey(db, credential_id, browser.address, session_id=known_id)
    async with db.transaction(System(), look=True) as tx:
        owner_id = await find_holder(tx, credential_id)
    if owner_id is None:
        raise refused()
    answered = Answered(
        site=site_of(public_url), challenge=challenge, credential_id=credential_id, answer=answer
    )
    command = SignInByPasskey(answered=answered, attempt_id=attempt_id, browser=browser)
    return await db.run(_owner(owner_id), sign_in_by_passkey, command)


async def ask_to_step_up(
    db: Database, visitor: Visitor, *, public_url: str, address: str
) -> Question:
    """What a browser asks for to make a session fresh: one of the visitor's passkeys."""
    async with db.transaction(_owner(visitor.owner_id)) as tx:
        known = await known_ids(tx)
        ceremony = await begin_ceremony(tx, address)
    site = site_of(public_url)
    options = request_options(site, challenge=ceremony.challenge, known=known)
    return Question(options=options, cookie=ceremony.cookie)


async def step_up_with_passkey(
    db: Database,
    visitor: Visitor,
    *,
    public_url: str,
    answer: str,
    cookie: str,
    browser: Browser,
) -> None:
    """Make the visitor's session fresh by a passkey of theirs; raises as signing in does.

    It is counted by the session alone, as a password is.
    """
    credential_id = credential_id_of(answer)
    owner = _owner(visitor.owner_id)
    challenge = await db.run(owner, take_challenge, cookie)
    attempt_id = await _begin_passkey(
        db, credential_id, browser.address, session_id=visitor.session_id
    )
    answered = Answered(
        site=site_of(public_url), challenge=challenge, credential_id=credential_id, answer=answer
    )
    proof = SignInByPasskey(answered=answered, attempt_id=attempt_id, browser=browser)
    await db.run(owner, step_up, StepUp(session_id=visitor.session_id, proof=proof))


async def _begin_passkey(
    db: Database, credential_id: bytes, address: str, *, session_id: int | None
) -> int:
    account = digest(credential_id.hex())
    attempt = BeginAttempt(account=account, address=address, session_id=session_id)
    return await db.run(Node(), begin_attempt, attempt)


async def ask_for_passkey(
    db: Database, visitor: Visitor, *, public_url: str, address: str
) -> Question:
    """What a browser asks for to make another passkey for the visitor."""
    async with db.transaction(_owner(visitor.owner_id)) as tx:
        handle = await handle_of(tx)
        known = await known_ids(tx)
        ceremony = await begin_ceremony(tx, address)
    return _creation(site_of(public_url), ceremony, handle=handle, name=visitor.name, known=known)


async def change_password(
    db: Database, visitor: Visitor, *, password: str, window_seconds: int
) -> int:
    """Hash and set a new password, and end the other sessions; how many there were.

    Raises StepUpNeeded when the visitor's session is none that lives and is fresh, also when it
    ended while the password was hashed.
    """
    password_hash = await hash_password(password)
    command = SetPassword(password_hash=password_hash, session_id=visitor.session_id)
    guarded = after_step_up(
        set_password, session_id=visitor.session_id, window_seconds=window_seconds
    )
    return await db.run(_owner(visitor.owner_id), guarded, command)


def _creation(
    site: Site, ceremony: Ceremony, *, handle: bytes, name: str, known: tuple[bytes, ...] = ()
) -> Question:
    options = creation_options(
        site, challenge=ceremony.challenge, handle=handle, name=name, known=known
    )
    return Question(options=options, cookie=ceremony.cookie)


async def ask_to_set_up(
    db: Database, *, link: str, name: str, public_url: str, address: str
) -> Question:
    """What a browser asks for to make the first passkey of an account, by a link.

    Raises NotFound for a link that is gone, Invalid for a name that cannot be.
    """
    async with db.transaction(System(), look=True) as tx:
        found = await links.get_link(tx, link)
    ceremony = await db.run(Node(), begin_ceremony, address)
    site = site_of(public_url)
    if found.owner_id is None:
        check_name(name, field="name")
        return _creation(site, ceremony, handle=_new_handle(ceremony.cookie), name=name)
    assert found.name is not None
    async with db.transaction(_owner(found.owner_id)) as tx:
        handle, known = await handle_of(tx), await known_ids(tx)
    return _creation(site, ceremony, handle=handle, name=found.name, known=known)


def _new_handle(cookie: str) -> bytes:
    """What authenticators are told instead of the name of an account that is not there yet."""
    return digest(f"muster passkey handle {cookie}")


@attrs.frozen(kw_only=True)
class SettingUp:
    """What somebody sends from the page that a link opens; a password or answer may be empty."""

    link: str = attrs.field(repr=False)
    name: str
    email: str
    password: str = attrs.field(repr=False)
    answer: str = attrs.field(repr=False)
    passkey_name: str
    cookie: str = attrs.field(repr=False)
    time_zone: str
    browser: Browser


async def set_up(db: Database, sent: SettingUp, *, public_url: str) -> Opened:
    """Open the first account, or give an account a new way to sign in, and sign in.

    All that can be wrong is found before the link is used. Raises NotFound for a link that is gone,
    Invalid for what is wrong in the form.
    """
    async with db.transaction(System()) as tx:
        found = await links.get_link(tx, sent.link)
        if found.owner_id is None and await links.has_users(tx):
            raise links.link_gone()
        fresh_id = await next_user_id(tx) if found.owner_id is None else found.owner_id
    if found.owner_id is None:
        check(AddUser(name=sent.name, email=sent.email, password_hash=None))
    check_time_zone(sent.time_zone)
    password_hash = await hash_password(sent.password) if sent.password else None
    passkey = None
    if sent.answer:
        check_passkey_name(sent.passkey_name)
        challenge = await db.run(Node(), take_challenge, sent.cookie)
        passkey = check_creation(site_of(public_url), challenge=challenge, answer=sent.answer)
    command = links.SetUp(
        link=sent.link,
        password_hash=password_hash,
        passkey=passkey,
        passkey_name=sent.passkey_name,
        time_zone=sent.time_zone,
        browser=sent.browser,
    )
    if found.owner_id is not None:
        return await db.run(_owner(fresh_id), links.take_link, command)
    first = links.FirstAccount(
        name=sent.name,
        email=sent.email,
        handle=_new_handle(sent.cookie or sent.link),
        set_up=command,
    )
    return await db.run(_owner(fresh_id), links.open_first_account, first)


async def take_new_passkey(
    db: Database,
    visitor: Visitor,
    *,
    public_url: str,
    answer: str,
    cookie: str,
    name: str,
    window_seconds: int,
) -> Passkey:
    """Add a passkey that the visitor's browser made; Invalid for what is wrong with it.

    Raises StepUpNeeded as `change_password` does.
    """
    check_passkey_name(name)
    owner = _owner(visitor.owner_id)
    challenge = await db.run(owner, take_challenge, cookie)
    command = AddPasskey(name=name, site=site_of(public_url), challenge=challenge, answer=answer)
    guarded = after_step_up(
        add_passkey, session_id=visitor.session_id, window_seconds=window_seconds
    )
    return await db.run(owner, guarded, command)
