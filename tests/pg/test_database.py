"""Transactions: who acts, what is committed, what a cancel leaves."""

from datetime import timedelta

import attrs
import pytest

from muster.errors import Refused
from muster.outcomes import Changed, Fact, Hint, HintKind
from muster.pg.audit import list_audit
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Owner, System
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase

USERS = Query("select id, name, email, disabled_at from users order by id")
SET_EMAIL = Query("update users set email = %(email)s where id = %(id)s")
LOCK = Query("select id from users where id = %(owner_id)s for update")
PLANS = Query("""
    select sum(generic_plans)::int as generic, sum(custom_plans)::int as custom
    from pg_prepared_statements where statement like '%%plans pinned%%'
""")
PINNED = Query("select name from users where id = %(owner_id)s /* plans pinned */")


@attrs.frozen(kw_only=True)
class Plans:
    """How often a statement ran by each kind of plan."""

    generic: int
    custom: int


@attrs.frozen(kw_only=True)
class User:
    """What these tests read of a user."""

    id: int
    name: str
    email: str
    disabled_at: object = None


async def rename(tx: Transaction, email: str) -> User:
    """Change a user's address, with a fact and a hint."""
    user = await tx.one(USERS, User)
    return await tx.save(
        SET_EMAIL,
        Changed(
            row=attrs.evolve(user, email=email),
            facts=(Fact(action="user.renamed", subject=f"user:{user.id}", data={"to": email}),),
            hints=(Hint(kind=HintKind.USER_CHANGED, owner_id=user.id, id=user.id),),
        ),
    )


async def test_save_writes_row_fact_and_hint(db: SpiedDatabase, owner: Owner) -> None:
    """One save writes the row and the audit fact, and the hint leaves after the commit."""
    async with db.transaction(owner) as tx:
        await rename(tx, "new@example.test")
        assert db.published == []
    assert [hint.kind for hint in db.published] == [HintKind.USER_CHANGED]
    async with db.transaction(owner) as tx:
        assert (await tx.one(USERS, User)).email == "new@example.test"
        (row,) = await list_audit(tx)
        assert (row.actor, row.via, row.action) == ("owner", "cli", "user.renamed")
        assert row.data == {"to": "new@example.test"}


async def test_a_statement_has_one_plan_for_all_parameters(
    db: SpiedDatabase, owner: Owner
) -> None:
    """No statement is planned anew for its parameters, which costs more than most take to run."""
    async with db.transaction(owner) as tx:
        for _ in range(3):
            await tx.scalar(PINNED)
        plans = await tx.one(PLANS, Plans)
    assert plans.custom == 0
    assert plans.generic >= 3


async def test_refusal_rolls_back(db: SpiedDatabase, owner: Owner) -> None:
    """What an operation wrote before it refused is gone, its hints and facts too."""

    async def rename_and_refuse(tx: Transaction, email: str) -> None:
        await rename(tx, email)
        raise Refused("no")

    with pytest.raises(Refused):
        await db.run(owner, rename_and_refuse, "new@example.test")
    async with db.transaction(owner) as tx:
        assert (await tx.one(USERS, User)).email != "new@example.test"
        assert await list_audit(tx) == []
    assert db.published == []


async def test_clock_offset(db: SpiedDatabase, owner: Owner) -> None:
    """Tests move the only wall clock there is."""
    async with db.transaction(owner) as tx:
        await tx.scalar(LOCK)
        before = tx.now
    db.clock_offset = timedelta(days=7)
    async with db.transaction(owner) as tx:
        with pytest.raises(AssertionError, match="after the first statement"):
            _ = tx.now
        await tx.scalar(LOCK)
        assert tx.now - before >= timedelta(days=7)
        assert tx.now.utcoffset() == timedelta(0)


async def test_system_has_no_owner(db: SpiedDatabase) -> None:
    """Asking System for its owner is our bug."""
    async with db.transaction(System()) as tx:
        with pytest.raises(AssertionError):
            _ = tx.owner_id


async def test_barrier_collides(db: SpiedDatabase, owner: Owner) -> None:
    """Colliding operations all have their transaction open before one begins."""
    open_now = 0

    async def operation(tx: Transaction) -> int:
        nonlocal open_now
        open_now += 1
        await tx.scalar(LOCK)
        return open_now

    outcomes = await collide(db, *[(owner, operation)] * 10)
    assert len(outcomes) == 10
