"""A transaction runs statements of SQLAlchemy Core, and reads, inserts and changes rows of tables."""

from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import bindparam, func, insert, select, text, update
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import aliased

from shared.database.engine import Database
from shared.database.statements import CompiledStatement
from shared.database.tables import Agent, RetractedSource, User
from shared.database.transaction import Transaction

NAMES = select(User.name).order_by(User.name)


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Transaction]:
    async with database.transaction() as transaction:
        await transaction.insert_all(
            User, [{"id": uuid4(), "name": name} for name in ("anna", "ben")]
        )
        yield transaction


async def user_id(session: Transaction, name: str) -> UUID:
    found = await session.scalar(select(User.id).where(User.name == name))
    assert found is not None
    return found


async def test_rows_of_tables_have_their_columns(session: Transaction) -> None:
    anna, ben = (await session.scalars(select(User).order_by(User.name))).all()
    assert (anna.name, anna.operator, ben.name) == ("anna", False, "ben")
    other = aliased(User)
    pairs = await session.execute(
        select(User, other, func.length(User.name).label("width"))
        .outerjoin(other, (other.name == "ben") & (User.name == "anna"))
        .order_by(User.name)
    )
    with_ben, alone = pairs.all()
    assert (with_ben[0].name, with_ben[1].name, with_ben.width) == ("anna", "ben", 4)
    assert (alone[0].name, alone[1], alone.width) == ("ben", None, 3)


async def test_results_are_those_of_sqlalchemy(session: Transaction) -> None:
    assert (await session.scalars(NAMES)).all() == ["anna", "ben"]
    assert await session.scalar(NAMES) == "anna"
    assert await session.scalar(NAMES.where(User.name == "carl")) is None
    mapped = (await session.execute(NAMES)).mappings().first()
    assert mapped is not None
    assert dict(mapped) == {"name": "anna"}
    by_text = await session.execute(
        text("select name as called from users order by 1 limit :most"), {"most": 1}
    )
    assert by_text.one().called == "anna"
    lengths = select(User.name, func.length(User.name)).where(User.name.in_(["anna", "carl"]))
    assert (await session.execute(lengths)).all() == [("anna", 4)]
    assert (await session.scalars(NAMES.where(User.name.in_([])))).all() == []


async def test_rows_are_found_by_their_key(session: Transaction) -> None:
    ben = await session.get_one(User, await user_id(session, "ben"))
    assert ben.name == "ben"
    assert await session.get(User, uuid4()) is None
    assert await session.get(RetractedSource, (uuid4(), uuid4())) is None
    with pytest.raises(NoResultFound):
        await session.get_one(User, uuid4())
    with pytest.raises(NoResultFound):
        await session.update(User, uuid4(), name="carl")


async def test_an_inserted_row_has_the_defaults_of_the_database(session: Transaction) -> None:
    row = await session.insert(
        Agent,
        id=uuid4(),
        owner_id=await user_id(session, "anna"),
        name="Watch",
        mission="Watch.",
        status="configuring",
        interval_seconds=60,
        models={"observer": "a"},
        **{
            f"{phase}_system_prompt": ""
            for phase in (
                "conversation",
                "observer",
                "knowledge_acquisition",
                "graph_construction",
                "analysis_generation",
                "advice_generation",
            )
        },
    )
    assert (row.models, row.iterations_started, row.created_at is None) == (
        {"observer": "a"},
        0,
        False,
    )
    changed = await session.update(Agent, row.id, models={}, updated_at=func.clock_timestamp())
    assert changed.models == {}
    assert changed.updated_at > row.updated_at


async def test_a_statement_runs_once_for_each_set_of_parameters(session: Transaction) -> None:
    ids = {name: await user_id(session, name) for name in ("anna", "ben")}
    rename = update(User).where(User.id == bindparam("of_user")).values(name=bindparam("called"))
    await session.execute_each(
        rename, [{"of_user": ids[name], "called": f"{name} b."} for name in ids]
    )
    await session.execute_each(insert(User), [{"id": uuid4(), "name": "carl"}])
    await session.execute_each(insert(User), [])
    assert (await session.scalars(NAMES)).all() == ["anna b.", "ben b.", "carl"]
    deleted = await session.execute(update(User).values(email=None))
    assert deleted.rowcount == 3


async def test_savepoints_are_nested(session: Transaction) -> None:
    rename = CompiledStatement("update users set name = :called where name = 'anna'")
    async with session.savepoint():
        with suppress(psycopg.errors.UniqueViolation):
            async with session.savepoint():
                await session.insert(User, id=uuid4(), name="lost")
                await rename.run(session, {"called": "ben"})
        await session.insert(User, id=uuid4(), name="kept")
    assert (await session.scalars(NAMES)).all() == ["anna", "ben", "kept"]


async def test_an_outer_savepoint_undoes_what_came_before_an_inner_one_that_failed(
    session: Transaction,
) -> None:
    with suppress(ValueError):
        async with session.savepoint():
            await session.insert(User, id=uuid4(), name="lost")
            with suppress(KeyError):
                async with session.savepoint():
                    raise KeyError
            raise ValueError
    assert (await session.scalars(NAMES)).all() == ["anna", "ben"]


async def test_a_rollback_undoes_a_first_statement_that_failed(database: Database) -> None:
    async with database.transaction() as session:
        with suppress(psycopg.errors.DivisionByZero):
            await session.execute(text("select 1 / 0"))
        await session.rollback()
        await session.insert(User, id=uuid4(), name="kept")
    async with database.transaction() as session:
        assert (await session.scalars(NAMES)).all() == ["kept"]


async def test_a_block_raises_its_own_error_although_the_connection_is_closed(
    database: Database,
) -> None:
    async def lose_connection() -> None:
        async with database.transaction() as session, session.savepoint():
            await session.connection.close()
            raise KeyError

    with pytest.raises(KeyError):
        await lose_connection()


async def test_any_number_of_rows_is_inserted(session: Transaction) -> None:
    # More values than one statement can have parameters.
    rows = [{"id": uuid4(), "name": f"user {number}"} for number in range(33_000)]
    await session.insert_all(User, rows)
    assert await session.scalar(select(func.count()).select_from(User)) == len(rows) + 2


async def test_a_transaction_begins_with_its_first_statement(database: Database) -> None:
    async with database.transaction() as session:
        begun = [session.is_begun]
        await session.insert(User, id=uuid4(), name="undone")
        begun.append(session.is_begun)
        await session.rollback()
        assert begun == [False, True]
        assert (await session.scalars(NAMES)).all() == []
        await session.insert(User, id=uuid4(), name="kept")
    async with database.snapshot() as snapshot:
        assert (await snapshot.scalars(NAMES)).all() == ["kept"]


async def test_a_failure_that_is_caught_does_not_end_as_a_commit(database: Database) -> None:
    async def insert_and_fail() -> None:
        async with database.transaction() as session:
            await session.insert(User, id=uuid4(), name="lost")
            with suppress(psycopg.errors.DivisionByZero):
                await session.execute(text("select 1 / 0"))

    with pytest.raises(psycopg.errors.InFailedSqlTransaction, match="nothing was committed"):
        await insert_and_fail()
    async with database.transaction() as session:
        assert (await session.scalars(NAMES)).all() == []


async def test_a_snapshot_does_not_change_and_cannot_be_written(database: Database) -> None:
    async with database.snapshot() as snapshot:
        assert await snapshot.scalar(NAMES) is None
        async with database.transaction() as session:
            await session.insert(User, id=uuid4(), name="later")
        assert await snapshot.scalar(NAMES) is None
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        async with database.snapshot() as snapshot:
            await snapshot.insert(User, id=uuid4(), name="refused")
