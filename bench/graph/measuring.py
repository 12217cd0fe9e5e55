"""What is measured, and how long each takes: in process, one after another, each with other values than the one before."""

import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from bench.graph import writing
from bench.graph.filling import Filled
from shared.database.engine import Database
from shared.graph import context
from shared.graph.retrieval import query
from shared.graph.validation import Validators

WARMING: Final = 10
"""The first of each, which are not told: connections, caches and statements are made ready."""

Work = Callable[[AsyncSession, int], Awaitable[object]]


@dataclass(frozen=True)
class Measured:
    name: str
    goal_seconds: float | None
    """That the p50 must be below; None where there is none."""
    p50_seconds: float
    p95_seconds: float


@dataclass(frozen=True)
class _Measure:
    name: str
    goal_seconds: float | None
    work: Work


async def measure(url: str, filled: Filled, times: int) -> list[Measured]:
    """Each measure `times` times, in a transaction each."""
    database = Database(url, name="bench")
    try:
        async with database.transaction() as session:
            await writing.read(session, filled.scope)
        return [await _timed(database, each, times) for each in _measures(filled)]
    finally:
        await database.close()


async def _timed(database: Database, measure: _Measure, times: int) -> Measured:
    seconds = []
    for number in range(-WARMING, times):
        began = time.perf_counter()
        async with database.transaction() as session:
            await measure.work(session, number + WARMING)
        if number >= 0:
            seconds.append(time.perf_counter() - began)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    return Measured(measure.name, measure.goal_seconds, statistics.median(seconds), p95)


def _measures(filled: Filled) -> Iterator[_Measure]:
    yield _Measure("context", 0.050, lambda session, _: context.build(session, filled.scope))
    yield from _lookups(filled)
    yield from _writes(filled)


def _lookups(filled: Filled) -> Iterator[_Measure]:
    hub, ids = [filled.hub], filled.ids

    def by(name: str, goal: float | None, **values: Sequence[object]) -> _Measure:
        async def work(session: AsyncSession, number: int) -> None:
            given = {key: value[number % len(value)] for key, value in values.items()}
            await query.query(session, filled.scope, **given)  # type: ignore[arg-type]  # as its own say

        return _Measure(name, goal, work)

    lately = datetime.now(UTC) - timedelta(days=3)
    names = filled.names
    yield by("by name", 0.010, text=names)
    yield by("by a word of names", None, text=[name.split()[0] for name in names])
    yield by("by a rare word of properties", None, text=filled.rare_words)
    yield by("by common words", None, text=["company corporation", "said group", "the bank"])
    yield by("by a misspelled name", None, text=[_misspelled(name) for name in names])
    yield by("by type and time", 0.010, type_name=["Type3", "Type17"], updated_since=[lately])
    yield by("neighbourhood, depth 1", 0.010, ids=[[each] for each in ids], neighbours=[1])
    yield by("neighbourhood, depth 2", 0.010, ids=[[each] for each in ids], neighbours=[2])
    yield by("neighbourhood of a hub, depth 1", 0.010, ids=[hub], neighbours=[1])
    yield by("neighbourhood of a hub, depth 2", 0.010, ids=[hub], neighbours=[2])
    pairs = list(pairwise(ids))
    yield by("paths between two", None, between=pairs)


def _writes(filled: Filled) -> Iterator[_Measure]:
    validators, others = Validators(), cycle(filled.ids)
    run = time.time_ns()

    async def add_node(session: AsyncSession, number: int) -> None:
        await writing.add_node(
            session,
            filled.scope,
            validators,
            type_name="Type1",
            name=f"{filled.names[number % len(filled.names)]} {run} {number}",
            properties={"summary": "What was found out just now.", "employees": number},
        )

    async def add_edge(session: AsyncSession, number: int) -> None:
        await writing.add_edge(
            session,
            filled.scope,
            validators,
            type_name=f"type_{number % 5}",
            source_id=filled.hub,
            target_id=next(others),
        )

    yield _Measure("add a node", 0.005, add_node)
    yield _Measure("add an edge", 0.005, add_edge)


def _misspelled(name: str) -> str:
    """Two letters of each of the first two words the other way round."""
    first, second, *rest = name.split()
    return " ".join([_swapped(first), _swapped(second), *rest])


def _swapped(word: str) -> str:
    return word[:2] + word[3:4] + word[2:3] + word[4:]
