"""Group commit: only the trip that fails may fail, and what was committed is there exactly once."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from shared.database.engine import Database
from shared.database.statements import (
    STRICT,
    BoundQuery,
    CompiledStatement,
    PendingResult,
    RoundTrip,
    UndoneError,
)
from shared.errors import RetrySoonError
from tests.support.seeds import first_seed, repeatable, seed_count

WALKS: Final = seed_count() or 5
AGENTS: Final = [UUID(int=number) for number in range(1, 6)]
WRITERS: Final = 8
TRIPS: Final = 25
"""Trips of a writer."""

_INSERT = CompiledStatement("insert into written (trip, agent) values (:trip, :agent) returning 1")
_INSERT_MERGED = CompiledStatement(
    "insert into merged select cast(unnest(cast(:trips as text[])) as uuid) returning trip"
)
_FAIL = CompiledStatement("select 1 / (:number - 1)")
_FORBID = CompiledStatement("select case when :strict then forbid_commit() end as is_undone")
_DIE = CompiledStatement("select pg_terminate_backend(pg_backend_pid())")


class Fault(Enum):
    NONE = "none"
    ERROR = "error"
    FORBIDDEN = "forbidden"
    UNSENDABLE = "unsendable"
    KILLED = "killed"
    CANCELLED = "cancelled"


_QUERIES: Final = {
    Fault.ERROR: BoundQuery(_FAIL, {"number": 1}, list),
    Fault.FORBIDDEN: BoundQuery(_FORBID, {STRICT: False}, list),
    Fault.UNSENDABLE: BoundQuery(_FAIL, {"number": object()}, list),
    Fault.KILLED: BoundQuery(_DIE, {}, list),
}


@pytest.fixture
async def workers(database: Database, database_url: str) -> AsyncIterator[Database]:
    async with database.transaction() as session:
        await session.execute(
            text(
                "create table written (trip uuid, agent uuid, by xid8 default pg_current_xact_id())"
            )
        )
        await session.execute(text("create table merged (trip uuid)"))
    pool = Database(database_url, name="worker", pool_size=4)
    yield pool
    await pool.close()


def merge(trips: Sequence[UUID]) -> BoundQuery[Sequence[UUID]]:
    params = {"trips": [str(trip) for trip in trips]}
    return BoundQuery(_INSERT_MERGED, params, lambda rows: [row.trip for row in rows])


def make_trip(
    trip_id: UUID, agent_id: UUID, fault: Fault, *, is_late: bool = False
) -> tuple[RoundTrip, PendingResult[Any]]:
    trip = RoundTrip()
    queries = [BoundQuery(_INSERT, {"trip": trip_id, "agent": agent_id}, list)]
    if fault in _QUERIES:
        queries.insert(0 if is_late else 1, _QUERIES[fault])
    trip.ask(queries[0])
    part = trip.ask_merged(merge, trip_id)
    for query in queries[1:]:
        trip.ask(query)
    return trip, part


async def transactions(database: Database) -> dict[int, list[tuple[UUID, UUID]]]:
    """Trips and agents by the transaction that has written them. Each has written both of its rows once."""
    async with database.transaction() as session:
        written = (await session.execute(text("select trip, agent, by::text from written"))).all()
        merged = list(await session.scalars(text("select trip from merged")))
    assert sorted(row.trip for row in written) == sorted(merged)
    assert max(Counter(merged).values(), default=1) == 1
    by_transaction: dict[int, list[tuple[UUID, UUID]]] = {}
    for trip, agent, number in written:
        by_transaction.setdefault(int(number), []).append((trip, agent))
    return by_transaction


async def test_what_waits_during_a_commit_is_committed_together(
    workers: Database, database: Database
) -> None:
    trips = [make_trip(uuid4(), agent, Fault.NONE) for agent in AGENTS]
    await asyncio.gather(
        *(workers.write(trip, agent) for (trip, _), agent in zip(trips, AGENTS, strict=True))
    )
    sizes = sorted(len(rows) for rows in (await transactions(database)).values())
    assert sizes == [1, len(AGENTS) - 1]
    assert len({part.value for _, part in trips}) == len(AGENTS)


async def test_the_trips_of_one_agent_are_committed_one_after_another(
    workers: Database, database: Database
) -> None:
    trips = [make_trip(uuid4(), AGENTS[0], Fault.NONE)[0] for _ in range(4)]
    await asyncio.gather(*(workers.write(trip, AGENTS[0]) for trip in trips))
    assert [len(rows) for rows in (await transactions(database)).values()] == [1] * 4


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.FORBIDDEN, Fault.UNSENDABLE])
async def test_only_the_trip_that_fails_fails(
    workers: Database, database: Database, fault: Fault
) -> None:
    ids = {agent: uuid4() for agent in AGENTS}
    outcomes = await asyncio.gather(
        *(
            workers.write(make_trip(ids[agent], agent, fault if agent == AGENTS[2] else Fault.NONE)[0], agent)
            for agent in AGENTS
        ),
        return_exceptions=True,
    )  # fmt: skip
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [type(outcomes[2])]
    assert isinstance(outcomes[2], UndoneError) == (fault is Fault.FORBIDDEN)
    written = {trip for rows in (await transactions(database)).values() for trip, _ in rows}
    assert written == {ids[agent] for agent in AGENTS if agent != AGENTS[2]}


async def test_a_cancelled_writer_takes_nothing_from_the_others(
    workers: Database, database: Database
) -> None:
    tasks = [
        asyncio.create_task(workers.write(make_trip(uuid4(), agent, Fault.NONE)[0], agent))
        for agent in AGENTS
    ]
    await asyncio.sleep(0)  # All have begun: the first commits, the others wait.
    tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome] == [asyncio.CancelledError]
    agents = [agent for rows in (await transactions(database)).values() for _, agent in rows]
    assert sorted(agents) == [agent for agent in AGENTS if agent != AGENTS[1]]


class Walk:
    """Writers with random faults."""

    def __init__(self, workers: Database, seed: int) -> None:
        self._workers = workers
        self._random = random.Random(seed)
        self.outcomes: dict[UUID, tuple[Fault, BaseException | None]] = {}

    async def run(self) -> None:
        await asyncio.gather(*(self._write_often() for _ in range(WRITERS)))

    async def _write_often(self) -> None:
        for fault in self._random.choices(list(Fault), (12, 1, 1, 1, 0.3, 1), k=TRIPS):
            await self._write(fault)

    async def _write(self, fault: Fault) -> None:
        trip_id, agent_id = uuid4(), self._random.choice(AGENTS)
        trip, part = make_trip(trip_id, agent_id, fault, is_late=self._random.random() < 0.5)
        task = asyncio.create_task(self._workers.write(trip, agent_id))
        if fault is Fault.CANCELLED:
            for _ in range(self._random.randrange(6)):
                await asyncio.sleep(0)
            task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        self.outcomes[trip_id] = (fault, outcome)
        if outcome is None:
            assert part.value == trip_id


async def test_an_error_affects_only_its_trip_and_what_succeeded_is_written_once(
    workers: Database, database: Database
) -> None:
    start = first_seed()
    for seed in range(start, start + WALKS):
        with repeatable(seed):
            walk = Walk(workers, seed)
            await walk.run()
            check(walk, await transactions(database))


def check(walk: Walk, by_transaction: Mapping[int, Sequence[tuple[UUID, UUID]]]) -> None:
    written = {trip for rows in by_transaction.values() for trip, _ in rows}
    for trip_id, (fault, outcome) in walk.outcomes.items():
        if outcome is None:
            assert trip_id in written
        elif isinstance(outcome, RetrySoonError | asyncio.CancelledError):
            # Its connection was lost, with its own commit or that of the group, or it was cancelled.
            assert fault is not Fault.KILLED or trip_id not in written
        else:
            assert fault in (Fault.ERROR, Fault.FORBIDDEN, Fault.UNSENDABLE)
            assert trip_id not in written
    for rows in by_transaction.values():
        agents = [agent for _, agent in rows]
        assert len(set(agents)) == len(agents)
    assert max(len(rows) for rows in by_transaction.values()) > 1
    succeeded = [outcome for _, outcome in walk.outcomes.values() if outcome is None]
    assert len(succeeded) > WRITERS * TRIPS // 2
