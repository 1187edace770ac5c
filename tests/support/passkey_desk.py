"""Somebody with a software authenticator, at the verbs of passkeys."""

import json
from typing import Any

import attrs

from muster.accounts import actor as accounts
from muster.accounts.operations.sessions import Opened, Visitor, knock_session
from muster.accounts.rules.signing import Browser
from muster.principals import System
from tests.support.authenticator import RIGHT, Authenticator, Faults
from tests.support.cluster import SpiedDatabase
from tests.support.person import Person, add_person, open_for

PUBLIC_URL = "https://muster.example.test"


@attrs.frozen(kw_only=True)
class Desk:
    """Somebody in a browser with an authenticator, signed in."""

    db: SpiedDatabase
    person: Person
    visitor: Visitor
    key: Authenticator
    address: str

    @property
    def browser(self) -> Browser:
        """Where they sign in."""
        return Browser(user_agent="tests", address=self.address)

    async def make(self, faults: Faults = RIGHT, key: Authenticator | None = None) -> None:
        """Add a passkey."""
        question = await accounts.ask_for_passkey(
            self.db, self.visitor, public_url=PUBLIC_URL, address=self.address
        )
        answer = (key or self.key).make(json.loads(question.options), faults)
        await accounts.take_new_passkey(
            self.db,
            self.visitor,
            public_url=PUBLIC_URL,
            answer=answer,
            cookie=question.cookie,
            name="laptop",
            window_seconds=12 * 60 * 60,
        )

    async def ask(self) -> tuple[dict[str, Any], str]:
        """The question to whoever signs in, and its cookie."""
        question = await accounts.ask_to_sign_in(
            self.db, public_url=PUBLIC_URL, address=self.address
        )
        return json.loads(question.options), question.cookie

    async def enter(self, answer: str, cookie: str) -> Opened:
        """Sign in by an answer."""
        return await accounts.sign_in_with_passkey(
            self.db, public_url=PUBLIC_URL, answer=answer, cookie=cookie, browser=self.browser
        )

    async def sign_in(self, faults: Faults = RIGHT) -> Opened:
        """Ask, answer and sign in."""
        options, cookie = await self.ask()
        return await self.enter(self.key.use(options, faults), cookie)


async def visitor_of(db: SpiedDatabase, opened: Opened) -> Visitor:
    """Who holds this session."""
    async with db.transaction(System(), look=True) as tx:
        visitor = await knock_session(tx, opened.cookie)
    assert visitor is not None
    return visitor


async def open_desk(db: SpiedDatabase, *, password: str | None = None) -> Desk:
    """A desk of somebody new, at an address of their own."""
    person = await add_person(db, password=password)
    opened = await open_for(db, person)
    return Desk(
        db=db,
        person=person,
        visitor=await visitor_of(db, opened),
        key=Authenticator(origin=PUBLIC_URL),
        address=f"10.{person.owner.owner_id >> 16 & 255}.{person.owner.owner_id >> 8 & 255}"
        f".{person.owner.owner_id & 255}",
    )
