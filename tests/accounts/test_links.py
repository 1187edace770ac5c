"""One-time links on the database: what each is good for, once, and for how long."""

import json
from datetime import timedelta

import attrs
import pytest
import trio

from muster.accounts import actor as accounts
from muster.accounts.operations import add_user, links, next_user_id
from muster.accounts.operations.passkeys import count_ways, list_passkeys
from muster.accounts.rules import AddUser
from muster.accounts.rules.signing import Browser
from muster.errors import Invalid, NotFound
from muster.pg.database import Database, open_database
from muster.pg.query import Query
from muster.principals import Node, Owner, System
from tests.support.authenticator import Authenticator, Faults
from tests.support.barrier import collide
from tests.support.builders import disable, read_audit
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person

PUBLIC_URL = "https://muster.example.test"
BROWSER = Browser(user_agent="tests", address="192.0.2.1")
NAMES = Query("select name from users order by id")


@attrs.frozen(kw_only=True)
class Named:
    """A user's name."""

    name: str


def form(link: str, **fields: str) -> accounts.SettingUp:
    """What somebody sends from the page of a link."""
    sent = {"name": "ada", "email": "", "password": PASSWORD, "answer": "", "cookie": ""}
    known = sent | {"passkey_name": "First", "time_zone": "UTC"} | fields
    return accounts.SettingUp(link=link, browser=BROWSER, **known)


async def link_for(db: Database, principal: Owner | Node) -> str:
    """A new link's text."""
    return (await db.run(principal, links.make_link, None)).text


async def set_up(db: Database, sent: accounts.SettingUp) -> object:
    """Take a link."""
    return await accounts.set_up(db, sent, public_url=PUBLIC_URL)


async def names_in(db: Database) -> list[str]:
    """Who has an account."""
    async with db.transaction(System()) as tx:
        return [row.name for row in await tx.all(NAMES, Named)]


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with nothing that opens their account."""
    return await add_person(db, password=None)


async def test_a_link_gives_a_way_in(db: SpiedDatabase, ada: Person) -> None:
    """A link sets a password for an account, signs in, and is used up."""
    link = await link_for(db, ada.owner)
    async with db.transaction(System(), look=True) as tx:
        found = await links.get_link(tx, link)
    assert (found.owner_id, found.name) == (ada.owner.owner_id, ada.name)
    await set_up(db, form(link, time_zone="Europe/Berlin"))
    with pytest.raises(NotFound) as caught:
        await set_up(db, form(link))
    assert caught.value.code == "link_gone"
    await accounts.sign_in_with_password(db, name=ada.name, password=PASSWORD, browser=BROWSER)
    facts = await read_audit(db, ada.owner, "user.")
    assert [fact.action for fact in facts] == [
        "user.added",
        "user.link_made",
        "user.password_set",
        "user.signed_in",
        "user.signed_in",
    ]


async def test_a_link_adds_a_passkey(db: SpiedDatabase, ada: Person) -> None:
    """A passkey that was made on the link's page opens the account; no password is needed."""
    link = await link_for(db, ada.owner)
    key = Authenticator(origin=PUBLIC_URL)
    question = await accounts.ask_to_set_up(
        db, link=link, name="", public_url=PUBLIC_URL, address="192.0.2.2"
    )
    options = json.loads(question.options)
    assert options["user"]["name"] == ada.name
    sent = form(link, password="", answer=key.make(options), cookie=question.cookie)
    await set_up(db, sent)
    async with db.transaction(ada.owner) as tx:
        assert [one.name for one in await list_passkeys(tx)] == ["First"]
        assert not (await count_ways(tx)).has_password
    asked = await accounts.ask_to_sign_in(db, public_url=PUBLIC_URL, address="192.0.2.2")
    await accounts.sign_in_with_passkey(
        db,
        public_url=PUBLIC_URL,
        answer=key.use(json.loads(asked.options)),
        cookie=asked.cookie,
        browser=BROWSER,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": "short"},
        {"password": ""},
        {"time_zone": "Nowhere"},
        {"answer": "{}", "cookie": "x"},
        {"answer": "{}", "passkey_name": ""},
    ],
)
async def test_a_mistake_uses_nothing_up(
    db: SpiedDatabase, ada: Person, wrong: dict[str, str]
) -> None:
    """What is wrong in the form leaves the link as it was."""
    link = await link_for(db, ada.owner)
    with pytest.raises(Invalid):
        await set_up(db, form(link, **wrong))
    await set_up(db, form(link))


async def test_a_wrong_passkey_uses_nothing_up(db: SpiedDatabase, ada: Person) -> None:
    """A passkey of another origin is refused, and the link is still good."""
    link = await link_for(db, ada.owner)
    question = await accounts.ask_to_set_up(
        db, link=link, name="", public_url=PUBLIC_URL, address="192.0.2.3"
    )
    key = Authenticator(origin=PUBLIC_URL)
    answer = key.make(json.loads(question.options), Faults(origin="https://evil.test"))
    with pytest.raises(Invalid):
        await set_up(db, form(link, answer=answer, cookie=question.cookie))
    await set_up(db, form(link))


async def test_a_link_grows_old(db: SpiedDatabase, ada: Person) -> None:
    """A link is good for fifteen minutes."""
    link = await link_for(db, ada.owner)
    db.clock_offset += timedelta(minutes=14)
    async with db.transaction(System(), look=True) as tx:
        await links.get_link(tx, link)
    db.clock_offset += timedelta(minutes=1, seconds=1)
    with pytest.raises(NotFound):
        await set_up(db, form(link))


async def test_a_new_link_ends_the_old(db: SpiedDatabase, ada: Person) -> None:
    """Of two links for one account the newer is good, and others' links are as they were."""
    other = await add_person(db)
    theirs = await link_for(db, other.owner)
    first = await link_for(db, ada.owner)
    second = await link_for(db, ada.owner)
    with pytest.raises(NotFound):
        await set_up(db, form(first))
    await set_up(db, form(second))
    await set_up(db, form(theirs))


async def test_a_disabled_account_has_no_link(db: SpiedDatabase, ada: Person) -> None:
    """A link of a disabled account opens nothing."""
    link = await link_for(db, ada.owner)
    await disable(db, ada.owner)
    with pytest.raises(NotFound):
        await set_up(db, form(link))


async def test_an_account_that_is_disabled_meanwhile_takes_no_link(
    db: SpiedDatabase, ada: Person
) -> None:
    """Nobody gets in by a link that was looked at before the account was disabled."""
    command = links.SetUp(
        link=await link_for(db, ada.owner),
        password_hash="hash",
        passkey=None,
        passkey_name="",
        time_zone="UTC",
        browser=BROWSER,
    )
    await disable(db, ada.owner)
    with pytest.raises(NotFound):
        await db.run(ada.owner, links.take_link, command)


async def test_two_uses_of_one_link(db: SpiedDatabase, ada: Person) -> None:
    """Of two who use one link at once, one gets in and one is told that it is used."""
    link = await link_for(db, ada.owner)
    command = links.SetUp(
        link=link,
        password_hash="hash",
        passkey=None,
        passkey_name="",
        time_zone="UTC",
        browser=BROWSER,
    )
    outcomes = await collide(
        db,
        (ada.owner, lambda tx: links.take_link(tx, command)),
        (ada.owner, lambda tx: links.take_link(tx, command)),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NotFound", "Opened"]


async def test_a_link_is_of_its_owner(db: SpiedDatabase, ada: Person) -> None:
    """Acting as somebody else, nobody uses an owner's link, nor a free one for an old account."""
    other = await add_person(db)
    for link in (await link_for(db, ada.owner), await link_for(db, Node())):
        command = links.SetUp(
            link=link,
            password_hash="hash",
            passkey=None,
            passkey_name="",
            time_zone="UTC",
            browser=BROWSER,
        )
        with pytest.raises(NotFound):
            await db.run(other.owner, links.take_link, command)


async def test_a_free_link_opens_no_second_account(db: SpiedDatabase, ada: Person) -> None:
    """Where there is an account, a link for the first one opens nothing, however it came about."""
    link = await link_for(db, Node())
    with pytest.raises(NotFound):
        await set_up(db, form(link, name=f"second-{ada.owner.owner_id}"))


async def test_the_first_account(own_database: OwnDatabase) -> None:
    """A link for the first account makes it; all such links are over once there is any account."""
    async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
        first, second = await link_for(db, Node()), await link_for(db, Node())
        for wrong in ({"name": "Ada L"}, {"email": "nobody"}, {"password": ""}):
            with pytest.raises(Invalid):
                await set_up(db, form(first, **wrong))
        assert await names_in(db) == []
        await set_up(db, form(first))
        assert await names_in(db) == ["ada"]
        with pytest.raises(NotFound):
            await set_up(db, form(second, name="eve"))
        assert await names_in(db) == ["ada"]


async def test_an_account_by_command_ends_free_links(own_database: OwnDatabase) -> None:
    """An account that the command line adds ends the link that the server printed."""
    async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
        link = await link_for(db, Node())
        async with db.transaction(System()) as tx:
            owner = Owner(owner_id=await next_user_id(tx), via="cli")
        await db.run(owner, add_user, AddUser(name="ada", email="", password_hash="x"))
        async with db.transaction(System(), look=True) as tx:
            with pytest.raises(NotFound):
                await links.get_link(tx, link)


@pytest.mark.parametrize("same", [True, False])
async def test_two_first_accounts_at_once(own_database: OwnDatabase, *, same: bool) -> None:
    """Of two who open the first account at once, by one link or by two, one does."""
    outcomes: list[type[object]] = []
    async with open_database(own_database.app_url, publish=lambda _hints: None) as db:
        first = await link_for(db, Node())
        texts = [first, first if same else await link_for(db, Node())]
        async with db.transaction(System()) as tx:
            owners = [Owner(owner_id=await next_user_id(tx), via="browser") for _ in texts]

        async def opening(number: int) -> None:
            set_up = links.SetUp(
                link=texts[number],
                password_hash="hash",
                passkey=None,
                passkey_name="",
                time_zone="UTC",
                browser=BROWSER,
            )
            command = links.FirstAccount(
                name=f"user-{number}", email="", handle=bytes([number]) * 32, set_up=set_up
            )
            try:
                done = await db.run(owners[number], links.open_first_account, command)
            except NotFound as refusal:
                outcomes.append(type(refusal))
            else:
                outcomes.append(type(done))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(opening, 0)
            nursery.start_soon(opening, 1)
        assert sorted(one.__name__ for one in outcomes) == ["NotFound", "Opened"]
        assert len(await names_in(db)) == 1
