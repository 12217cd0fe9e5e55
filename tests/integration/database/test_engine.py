"""The pool, which detects connections closed by the server, and statements that are passed to psycopg directly."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import bindparam, func, insert, select, text

from shared.database import engine
from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery, CompiledStatement
from shared.database.tables import GraphNodeType, User
from shared.errors import RetrySoonError, TransientError
from tests.support.factories import make_agent
from tests.support.waiting import wait_until

POOL_SIZE: Final = 3


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="pool", pool_size=POOL_SIZE)
    yield database
    await database.close()


async def _fill(pool: Database, connections: int) -> set[int]:
    """Makes the pool open that many connections; returns the pids of their backends."""
    barrier = asyncio.Barrier(connections)

    async def use() -> int:
        async with pool.transaction() as session:
            pid = (await session.execute(select(func.pg_backend_pid()))).scalar_one()
            await barrier.wait()
            return int(pid)

    return set(await asyncio.gather(*(use() for _ in range(connections))))


async def test_connections_closed_by_the_server_are_never_used(
    pool: Database, database_url: str
) -> None:
    closed_pids = await _fill(pool, 3)
    with psycopg.connect(database_url, autocommit=True) as operator:
        for pid in closed_pids:
            operator.execute("select pg_terminate_backend(%s, 5000)", [pid])
    assert not await _fill(pool, 3) & closed_pids


async def test_a_live_connection_is_reused(pool: Database) -> None:
    first = await _fill(pool, 1)
    for _ in range(10):
        assert await _fill(pool, 1) == first


async def test_a_statement_runs_in_the_transaction_of_its_session(pool: Database) -> None:
    insert_user = CompiledStatement(insert(User), columns=["id", "name"])
    count = CompiledStatement("select count(*) as users from users where name = :called")
    kept_user, undone_user = {"id": uuid4(), "name": "kept"}, {"id": uuid4(), "name": "undone"}
    async with pool.transaction() as session:
        assert await insert_user.run(session, kept_user) == 1

    async def undo() -> None:
        async with pool.transaction() as session:
            await insert_user.run(session, undone_user)
            raise RuntimeError("undo")

    with pytest.raises(RuntimeError, match="undo"):
        await undo()
    async with pool.transaction() as session:
        assert (await count.row(session, {"called": "kept"})).users == 1
        assert (await count.row(session, {"called": "undone"})).users == 0


async def test_a_statement_runs_in_the_savepoint_of_its_session(pool: Database) -> None:
    insert_user = CompiledStatement(insert(User), columns=["id", "name"])
    async with pool.transaction() as session:
        await insert_user.run(session, {"id": uuid4(), "name": "before"})
        with suppress(RuntimeError):
            async with session.savepoint():
                await insert_user.run(session, {"id": uuid4(), "name": "undone"})
                raise RuntimeError
        async with session.savepoint():
            await insert_user.run(session, {"id": uuid4(), "name": "within"})
        await insert_user.run(session, {"id": uuid4(), "name": "behind"})
    async with pool.transaction() as session:
        names = await CompiledStatement("select name from users order by name").rows(session)
        assert [row.name for row in names] == ["before", "behind", "within"]


async def test_the_cache_of_a_transaction_is_emptied_with_a_savepoint_that_is_rolled_back(
    pool: Database,
) -> None:
    async with pool.transaction() as session:
        session.cache["seen"] = 1
        async with session.savepoint():
            assert session.cache["seen"] == 1
        with suppress(RuntimeError):
            async with session.savepoint():
                raise RuntimeError("undo")
        assert session.cache == {}
        session.cache["seen"] = 2
    async with pool.transaction() as session:
        assert session.cache == {}


async def test_json_is_read_back_as_it_was_written(pool: Database) -> None:
    agent = await make_agent(pool)
    schema = {"type": "object", "said": "ü 漢 'quoted'", "deep": [1, None, {"x": 0.5}]}
    values = {"agent_id": agent.id, "name": "Thing", "description": "A thing.", "created_by": "x"}
    insert_type = CompiledStatement(
        insert(GraphNodeType),
        columns=[*values, "properties_schema", "example_properties"],
    )
    read_schema = CompiledStatement(
        select(GraphNodeType.properties_schema).where(GraphNodeType.agent_id == bindparam("of"))
    )
    async with pool.transaction() as session:
        await insert_type.run(
            session, {**values, "properties_schema": schema, "example_properties": {}}
        )
        assert [
            row.properties_schema for row in await read_schema.rows(session, {"of": agent.id})
        ] == [schema]


async def test_a_missing_parameter_is_an_error(pool: Database) -> None:
    async with pool.transaction() as session:
        with pytest.raises(Exception, match="required for bind parameter 'called'"):
            await CompiledStatement("select 1 from users where name = :called").rows(session)


async def test_a_lost_connection_is_a_transient_error(pool: Database) -> None:
    with pytest.raises(TransientError, match="PostgreSQL"):
        async with pool.transaction() as session:
            await CompiledStatement("select pg_terminate_backend(pg_backend_pid())").rows(session)
    async with pool.transaction() as session:
        assert (await session.execute(text("select 1"))).scalar_one() == 1


_BACKEND = BoundQuery(
    CompiledStatement("select pg_backend_pid()"), {}, lambda rows: int(rows[0].pg_backend_pid)
)


async def _read_at_once(pool: Database, reads: int) -> set[int]:
    """Reads concurrently; returns the pids of the backends."""
    return set(await asyncio.gather(*(pool.run(_BACKEND) for _ in range(reads))))


async def test_a_read_survives_connections_closed_by_the_server(
    pool: Database, database_url: str
) -> None:
    closed_pids = await _read_at_once(pool, 20)
    assert 0 < len(closed_pids) <= pool.max_connections
    with psycopg.connect(database_url, autocommit=True) as operator:
        for pid in closed_pids:
            operator.execute("select pg_terminate_backend(%s, 5000)", [pid])
    pids = await _read_at_once(pool, 20)
    assert pids
    assert not pids & closed_pids


async def test_one_read_finds_a_connection_though_the_server_has_closed_many(
    database_url: str,
) -> None:
    pool = Database(database_url, name="pool", pool_size=8)
    barrier = asyncio.Barrier(8)

    async def read() -> int:
        async with pool.connection() as connection:
            await barrier.wait()
            return await _BACKEND.execute(connection)

    closed_pids = await asyncio.gather(*(read() for _ in range(8)))
    with psycopg.connect(database_url, autocommit=True) as operator:
        for pid in closed_pids:
            operator.execute("select pg_terminate_backend(%s, 5000)", [pid])
    assert await pool.run(_BACKEND) not in closed_pids
    await pool.close()


async def test_a_read_holds_no_transaction_open(pool: Database, database_url: str) -> None:
    pid = await pool.run(_BACKEND)
    with psycopg.connect(database_url, autocommit=True) as operator:
        state = operator.execute("select state from pg_stat_activity where pid = %s", [pid])
        assert state.fetchone() == ("idle",)


async def test_a_cancelled_read_ends_though_it_waits_for_a_connection(pool: Database) -> None:
    chance = random.Random(7)

    async def read_forever() -> None:
        while True:
            await pool.run(_BACKEND)

    for _ in range(60):
        reading = [asyncio.create_task(read_forever()) for _ in range(20)]
        for task in reading:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            task.cancel()
        _, pending = await asyncio.wait(reading, timeout=10)
        assert not pending


async def test_a_cancelled_write_is_whole_or_absent(pool: Database) -> None:
    """A connection that is cancelled amid a pipeline must not ignore the statements of its next user."""
    chance = random.Random(3)
    insert_user = CompiledStatement(insert(User), columns=["id", "name"])
    completed: set[str] = set()

    async def write(name: str) -> None:
        batch = Batch()
        for half in ("first", "second"):
            user = {"id": uuid4(), "name": f"{half} {name}"}
            batch.add(BoundQuery(insert_user, user, lambda _: None))
        number = batch.add(BoundQuery(CompiledStatement("select 7"), {}, lambda rows: rows[0][0]))
        if chance.random() < 0.5:
            await pool.write(batch)
        else:
            async with pool.transaction(batch) as connection:
                await _BACKEND.execute(connection)
        assert number.value == 7
        completed.add(name)

    async def write_and_cancel(name: str) -> None:
        writing = asyncio.create_task(write(name))
        if chance.random() < 0.1:
            # However busy the machine is, some writes come to their end.
            await writing
        for _ in range(chance.randrange(60)):
            await asyncio.sleep(0)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing

    for batch in range(40):
        await asyncio.gather(*(write_and_cancel(f"{batch} {number}") for number in range(10)))
    async with pool.transaction() as session:
        names = set(await session.scalars(select(User.name)))
    first, second = (
        {name.removeprefix(half) for name in names if name.startswith(half)}
        for half in ("first ", "second ")
    )
    assert first == second
    assert len(completed) > 20
    assert completed <= first


async def test_a_read_of_an_unavailable_server_is_a_transient_error() -> None:
    nowhere = Database("postgresql://vigil@127.0.0.1:1/vigil", name="nowhere")
    try:
        with pytest.raises(RetrySoonError, match="PostgreSQL: no connection within 5 s"):
            await nowhere.run(_BACKEND)
    finally:
        await nowhere.close()


async def test_unused_connections_are_closed_and_opened_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_IDLE_SECONDS", 0.2)
    database = Database(database_url, name="idle", pool_size=POOL_SIZE)
    try:
        pids = await _fill(database, 3)
        await database.ping()

        async def has_none() -> bool:
            return not any(database.pool_use().values())

        await wait_until(has_none, what="every unused connection to be closed")
        with psycopg.connect(database_url) as operator:
            query = "select count(*) from pg_stat_activity where pid = any(%s)"
            assert operator.execute(query, [list(pids)]).fetchone() == (0,)
        await database.ping()
        assert not await _fill(database, 3) & pids
    finally:
        await database.close()


async def test_a_connection_in_use_is_not_closed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_IDLE_SECONDS", 0.1)
    database = Database(database_url, name="idle", pool_size=POOL_SIZE)
    try:
        await _fill(database, 2)
        async with database.transaction() as session:
            first = await session.scalar(select(func.pg_backend_pid()))
            # Longer than a connection may be unused.
            assert await session.scalar(text("select 1 from pg_sleep(0.5)")) == 1
            assert await session.scalar(select(func.pg_backend_pid())) == first
    finally:
        await database.close()
