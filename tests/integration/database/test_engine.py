"""The pool, which notices connections that the server has ended, and statements that go to psycopg as they are."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import bindparam, func, insert, select, text
from sqlalchemy.exc import InvalidRequestError

from shared.database import engine
from shared.database.engine import Database
from shared.database.statements import CompiledStatement, transaction_cache
from shared.database.tables import GraphNodeType, User
from shared.errors import TransientError
from tests.support.making import make_agent


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="pool", pool_size=3)
    yield database
    await database.close()


async def _fill(pool: Database, connections: int) -> set[int]:
    """Has the pool open that many; the pids of their servers."""
    everyone = asyncio.Barrier(connections)

    async def use() -> int:
        async with pool.transaction() as session:
            pid = (await session.execute(select(func.pg_backend_pid()))).scalar_one()
            await everyone.wait()
            return int(pid)

    return set(await asyncio.gather(*(use() for _ in range(connections))))


@pytest.mark.parametrize("rested_seconds", [0.0, 3600.0], ids=["asked each time", "looked at"])
async def test_connections_that_the_server_has_ended_are_never_used(
    pool: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, rested_seconds: float
) -> None:
    monkeypatch.setattr(engine, "PING_AFTER_IDLE_SECONDS", rested_seconds)
    ended = await _fill(pool, 3)
    with psycopg.connect(database_url, autocommit=True) as operator:
        for pid in ended:
            operator.execute("select pg_terminate_backend(%s, 5000)", [pid])
    assert not await _fill(pool, 3) & ended


async def test_a_connection_that_lives_is_kept(pool: Database) -> None:
    first = await _fill(pool, 1)
    for _ in range(10):
        assert await _fill(pool, 1) == first


async def test_a_statement_sees_what_its_session_has_yet_to_write(pool: Database) -> None:
    named = CompiledStatement(select(User.name).where(User.id == bindparam("of_user")))
    user = User(id=uuid4(), name="written by the session")
    async with pool.transaction() as session:
        session.add(user)
        assert await named.value(session, {"of_user": user.id}) == user.name
        assert await named.value(session, {"of_user": uuid4()}) is None


async def test_a_statement_is_of_its_transaction(pool: Database) -> None:
    make = CompiledStatement(insert(User), columns=["id", "name"])
    count = CompiledStatement("select count(*) as users from users where name = :called")
    kept, undone = {"id": uuid4(), "name": "kept"}, {"id": uuid4(), "name": "undone"}
    async with pool.transaction() as session:
        assert await make.run(session, kept) == 1

    async def undo() -> None:
        async with pool.transaction() as session:
            await make.run(session, undone)
            raise RuntimeError("undo")

    with pytest.raises(RuntimeError, match="undo"):
        await undo()
    async with pool.transaction() as session:
        assert (await count.row(session, {"called": "kept"})).users == 1
        assert (await count.row(session, {"called": "undone"})).users == 0


async def test_a_statement_is_of_its_savepoint(pool: Database) -> None:
    make = CompiledStatement(insert(User), columns=["id", "name"])
    async with pool.transaction() as session:
        await make.run(session, {"id": uuid4(), "name": "before"})
        async with session.begin_nested() as attempt:
            await make.run(session, {"id": uuid4(), "name": "undone"})
            await attempt.rollback()
        async with session.begin_nested():
            await make.run(session, {"id": uuid4(), "name": "within"})
        await make.run(session, {"id": uuid4(), "name": "behind"})
    async with pool.transaction() as session:
        names = await CompiledStatement("select name from users order by name").rows(session)
        assert [row.name for row in names] == ["before", "behind", "within"]


async def test_what_is_known_within_a_transaction_ends_with_it(pool: Database) -> None:
    async with pool.transaction() as session:
        await session.connection()
        transaction_cache(session)["seen"] = 1
        async with session.begin_nested():
            assert "seen" not in transaction_cache(session)
            transaction_cache(session)["seen"] = 2
        assert "seen" not in transaction_cache(session)
        transaction_cache(session)["seen"] = 3
        await session.execute(text("select 1"))
        assert transaction_cache(session)["seen"] == 3
        await session.commit()
        assert "seen" not in transaction_cache(session)


async def test_no_statement_goes_to_a_connection_that_was_given_back(pool: Database) -> None:
    look = CompiledStatement("select 1 as one")
    async with pool.transaction() as session:
        await look.value(session)
        await session.rollback()
        with pytest.raises(InvalidRequestError, match="closed transaction"):
            await look.value(session)


async def test_json_goes_in_and_comes_out(pool: Database) -> None:
    agent = await make_agent(pool)
    schema = {"type": "object", "said": "ü 漢 'quoted'", "deep": [1, None, {"x": 0.5}]}
    about = {"agent_id": agent.id, "name": "Thing", "description": "A thing.", "created_by": "x"}
    make = CompiledStatement(
        insert(GraphNodeType),
        columns=[*about, "properties_schema", "example_properties"],
    )
    read = CompiledStatement(
        select(GraphNodeType.properties_schema).where(GraphNodeType.agent_id == bindparam("of"))
    )
    async with pool.transaction() as session:
        await make.run(session, {**about, "properties_schema": schema, "example_properties": {}})
        assert [row.properties_schema for row in await read.rows(session, {"of": agent.id})] == [
            schema
        ]


async def test_what_is_not_given_is_an_error(pool: Database) -> None:
    async with pool.transaction() as session:
        with pytest.raises(Exception, match="required for bind parameter 'called'"):
            await CompiledStatement("select 1 from users where name = :called").rows(session)


async def test_a_server_that_goes_away_is_for_another_try(pool: Database) -> None:
    with pytest.raises(TransientError, match="PostgreSQL"):
        async with pool.transaction() as session:
            await CompiledStatement("select pg_terminate_backend(pg_backend_pid())").rows(session)
    async with pool.transaction() as session:
        assert (await session.execute(text("select 1"))).scalar_one() == 1
