"""Passkeys on the database, by an authenticator in software, right and wrong in every part."""

import json
from datetime import timedelta

import pytest
import trio

from muster.accounts import actor as accounts
from muster.accounts.operations.challenges import LIVE_AN_ADDRESS_MAX
from muster.accounts.operations.passkeys import (
    Answered,
    RevokePasskey,
    list_passkeys,
    revoke_passkey,
)
from muster.accounts.operations.sessions import list_sessions
from muster.accounts.operations.signing import SignInByPasskey, StepUp, step_up
from muster.accounts.passkeys import challenge_of, site_of
from muster.accounts.rules.attempts import ACCOUNT_FAILURES_MAX
from muster.errors import Invalid, MusterError, NotFound, Refused, TooMany, Unauthorized
from tests.support.authenticator import Authenticator, Faults
from tests.support.barrier import collide
from tests.support.builders import disable, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.passkey_desk import PUBLIC_URL, Desk, open_desk, visitor_of


@pytest.fixture
async def desk(db: SpiedDatabase) -> Desk:
    """A desk whose authenticator has a passkey."""
    desk = await open_desk(db)
    await desk.make()
    return desk


async def test_a_passkey_signs_in(desk: Desk) -> None:
    """A passkey that was made opens a session, says when it was used, and leaves its facts."""
    options, _ = await desk.ask()
    assert options["userVerification"] == "required"
    assert options.get("allowCredentials", []) == []
    opened = await desk.sign_in()
    visitor = await visitor_of(desk.db, opened)
    assert visitor.name == desk.person.name
    async with desk.db.transaction(desk.person.owner) as tx:
        (passkey,) = await list_passkeys(tx)
        sessions = await list_sessions(tx)
    assert passkey.last_used_at is not None
    assert {one.method for one in sessions} == {"password", "passkey"}
    facts = await read_audit(desk.db, desk.person.owner, "passkey.")
    assert [fact.action for fact in facts] == ["passkey.added"]


async def test_what_a_browser_is_asked_to_make(desk: Desk) -> None:
    """A new passkey is to be resident and verified, for the host, and none that is known."""
    question = await accounts.ask_for_passkey(
        desk.db, desk.visitor, public_url=PUBLIC_URL, address=desk.address
    )
    options = json.loads(question.options)
    chosen = options["authenticatorSelection"]
    assert (chosen["residentKey"], chosen["userVerification"]) == ("required", "required")
    assert options["rp"]["id"] == "muster.example.test"
    assert options["attestation"] == "none"
    assert len(options["excludeCredentials"]) == 1


WRONG_IN_BOTH = {
    "another origin": Faults(origin="https://muster.example.test.evil.test"),
    "http": Faults(origin="http://muster.example.test"),
    "another port": Faults(origin="https://muster.example.test:8443"),
    "another host": Faults(host="evil.test"),
    "not verified": Faults(unverified=True),
    "nobody there": Faults(absent=True),
    "another challenge": Faults(challenge=b"x" * 32),
}
WRONG_IN_USE = {
    "of a creation": Faults(kind="webauthn.create"),
    "another's key": Faults(other_key=True),
    "another's handle": Faults(handle=b"h" * 32),
    "no handle": Faults(handle=b""),
}


@pytest.mark.parametrize("fault", [*WRONG_IN_BOTH, *WRONG_IN_USE])
async def test_a_wrong_answer_opens_nothing(desk: Desk, fault: str) -> None:
    """An answer that is wrong in one part is refused like any other; the right one then works."""
    faults = (WRONG_IN_BOTH | WRONG_IN_USE)[fault]
    with pytest.raises(Unauthorized) as caught:
        await desk.sign_in(faults)
    assert caught.value.code == "sign_in_refused"
    await desk.sign_in()


@pytest.mark.parametrize("fault", [*WRONG_IN_BOTH, "of a use"])
async def test_a_wrong_passkey_is_not_kept(db: SpiedDatabase, fault: str) -> None:
    """A passkey whose making is wrong in one part is not kept."""
    desk = await open_desk(db)
    faults = (WRONG_IN_BOTH | {"of a use": Faults(kind="webauthn.get")})[fault]
    with pytest.raises(Invalid):
        await desk.make(faults)
    async with db.transaction(desk.person.owner) as tx:
        assert await list_passkeys(tx) == []


async def test_a_challenge_is_used_once(desk: Desk) -> None:
    """The same answer, and another answer to the same question, are refused the second time."""
    options, cookie = await desk.ask()
    answer = desk.key.use(options)
    await desk.enter(answer, cookie)
    for again in (answer, desk.key.use(options)):
        with pytest.raises(Invalid) as caught:
            await desk.enter(again, cookie)
        assert caught.value.code == "challenge_gone"


async def test_an_answer_belongs_to_its_browser(desk: Desk) -> None:
    """An answer that somebody else carries off is of no use with another browser's question."""
    options, _ = await desk.ask()
    _, others = await desk.ask()
    with pytest.raises(Unauthorized):
        await desk.enter(desk.key.use(options), others)
    with pytest.raises(Invalid):
        await desk.enter(desk.key.use(options), "")


async def test_a_challenge_grows_old(desk: Desk) -> None:
    """A question is good for five minutes."""
    options, cookie = await desk.ask()
    desk.db.clock_offset += timedelta(minutes=5, seconds=1)
    with pytest.raises(Invalid):
        await desk.enter(desk.key.use(options), cookie)


@pytest.mark.parametrize("count", [0, 1, 2])
async def test_a_copied_passkey_is_refused(desk: Desk, count: int) -> None:
    """An answer whose count does not grow comes from a copy, and changes nothing."""
    await desk.sign_in()
    await desk.sign_in()
    with pytest.raises(Unauthorized):
        await desk.sign_in(Faults(count=count))
    await desk.sign_in()


async def test_an_authenticator_that_never_counts_works(db: SpiedDatabase) -> None:
    """Passkeys that are shared between devices count nothing, and are as good."""
    desk = await open_desk(db)
    desk.key.counts = False
    await desk.make()
    await desk.sign_in()
    await desk.sign_in()


async def test_two_answers_at_one_count(desk: Desk) -> None:
    """Of two answers with the same count that come at once, one opens a session."""
    first, second = await desk.ask(), await desk.ask()
    answers = [desk.key.use(first[0], Faults(count=7)), desk.key.use(second[0], Faults(count=7))]
    outcomes: list[object] = []

    async def enter(answer: str, cookie: str) -> None:
        try:
            outcomes.append(await desk.enter(answer, cookie))
        except MusterError as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(enter, answers[0], first[1])
        nursery.start_soon(enter, answers[1], second[1])
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Opened", "Unauthorized"]


async def test_two_confirmations_at_one_count(desk: Desk) -> None:
    """Of two confirmations with the same count that come at once, one is taken."""
    owner = desk.person.owner
    commands = []
    for _ in range(2):
        question = await accounts.ask_to_step_up(
            desk.db, desk.visitor, public_url=PUBLIC_URL, address=desk.address
        )
        answered = Answered(
            site=site_of(PUBLIC_URL),
            challenge=challenge_of(question.cookie),
            credential_id=desk.key.credential_id,
            answer=desk.key.use(json.loads(question.options), Faults(count=9)),
        )
        proof = SignInByPasskey(answered=answered, attempt_id=0, browser=desk.browser)
        commands.append(StepUp(session_id=desk.visitor.session_id, proof=proof))
    outcomes = await collide(
        desk.db,
        (owner, lambda tx: step_up(tx, commands[0])),
        (owner, lambda tx: step_up(tx, commands[1])),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "Unauthorized"]


async def test_a_disabled_accounts_passkey_opens_nothing(desk: Desk) -> None:
    """A disabled account's passkey is refused as one that nobody has."""
    await disable(desk.db, desk.person.owner)
    with pytest.raises(Unauthorized) as caught:
        await desk.sign_in()
    stranger = Authenticator(origin=PUBLIC_URL, handle=b"x" * 32)
    options, cookie = await desk.ask()
    with pytest.raises(Unauthorized) as unknown:
        await desk.enter(stranger.use(options), cookie)
    assert caught.value.sentence == unknown.value.sentence


async def test_passkeys_are_not_guessed_for_ever(desk: Desk) -> None:
    """Wrong answers for one passkey are counted, and then it waits too."""
    for _ in range(ACCOUNT_FAILURES_MAX):
        with pytest.raises(Unauthorized):
            await desk.sign_in(Faults(other_key=True))
    with pytest.raises(TooMany):
        await desk.sign_in()


async def test_the_last_way_in_stays(desk: Desk) -> None:
    """A passkey can be revoked while something else opens the account, and no further."""
    await desk.make(key=Authenticator(origin=PUBLIC_URL))
    async with desk.db.transaction(desk.person.owner) as tx:
        first, second = await list_passkeys(tx)
    owner = desk.person.owner
    await desk.db.run(owner, revoke_passkey, RevokePasskey(passkey_id=first.id))
    with pytest.raises(Unauthorized):
        await desk.sign_in()
    with pytest.raises(NotFound):
        await desk.db.run(owner, revoke_passkey, RevokePasskey(passkey_id=first.id))
    with pytest.raises(Refused) as caught:
        await desk.db.run(owner, revoke_passkey, RevokePasskey(passkey_id=second.id))
    assert caught.value.code == "last_way"


async def test_two_that_revoke_the_last_two(desk: Desk) -> None:
    """Of two that take away the last two passkeys at once, one is refused."""
    await desk.make(key=Authenticator(origin=PUBLIC_URL))
    owner = desk.person.owner
    async with desk.db.transaction(owner) as tx:
        commands = [RevokePasskey(passkey_id=one.id) for one in await list_passkeys(tx)]
    outcomes = await collide(
        desk.db,
        (owner, lambda tx: revoke_passkey(tx, commands[0])),
        (owner, lambda tx: revoke_passkey(tx, commands[1])),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Passkey", "Refused"]


async def test_another_owners_passkey_is_out_of_reach(desk: Desk) -> None:
    """Nobody revokes another's passkey, nor steps up by it."""
    other = await open_desk(desk.db, password="long enough")
    async with desk.db.transaction(desk.person.owner) as tx:
        (passkey,) = await list_passkeys(tx)
    command = RevokePasskey(passkey_id=passkey.id)
    with pytest.raises(NotFound):
        await desk.db.run(other.person.owner, revoke_passkey, command)
    question = await accounts.ask_to_step_up(
        desk.db, other.visitor, public_url=PUBLIC_URL, address=other.address
    )
    with pytest.raises(Unauthorized):
        await accounts.step_up_with_passkey(
            desk.db,
            other.visitor,
            public_url=PUBLIC_URL,
            answer=desk.key.use(json.loads(question.options)),
            cookie=question.cookie,
            browser=other.browser,
        )


async def test_one_address_asks_only_so_much(desk: Desk) -> None:
    """An address that leaves too many questions open has to wait; others do not."""
    for _ in range(LIVE_AN_ADDRESS_MAX):
        await desk.ask()
    with pytest.raises(TooMany):
        await desk.ask()
    await accounts.ask_to_sign_in(desk.db, public_url=PUBLIC_URL, address=f"{desk.address}9")
