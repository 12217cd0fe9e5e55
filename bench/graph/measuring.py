"""Times reads and writes of the graph: in process, one after another, with different values each time."""

import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final
from uuid import UUID

from bench.graph.filling import HUB, FilledGraph
from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.enums import StepKind
from shared.graph import context, elements
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.retrieval import query
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.tools import Json

_URL: Final = "https://bench.example/page"
_PAGE_CHARS: Final = 15_000
"""Length of a long article."""


def quote_about(name: str, employees: int = 0) -> str:
    """What the page says of a company."""
    return f"A third of all that {HUB} shipped went to {name}, which has {employees} employees."


async def store_page(session: Transaction, scope: GraphScope, quotes: Sequence[str]) -> None:
    """Store the page that all evidence quotes: a long article, which ends with `quotes`."""
    ending, filling = " ".join(quotes), "Nothing of note happened on this day. "
    missing = max(0, _PAGE_CHARS - len(ending))
    content = filling * (missing // len(filling)) + ending
    page = {"url": _URL, "title": "A page", "content": content}
    await store_pages(session, scope, {"results": [page]})


async def write_node(
    session: Transaction,
    scope: GraphScope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
    quote: str,
) -> UUID:
    result = await elements.add_node(
        session,
        scope,
        validators,
        type_name=type_name,
        name=name,
        properties=properties,
        evidence=[EvidenceInput(_URL, quote)],
        duplicate_threshold=DUPLICATE_THRESHOLD,
    )
    return result.id


async def write_edge(
    session: Transaction,
    scope: GraphScope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    quote: str,
) -> None:
    await elements.add_edge(
        session,
        scope,
        validators,
        type_name=type_name,
        source_id=source_id,
        target_id=target_id,
        properties={"share": "a third"},
        evidence=[EvidenceInput(_URL, quote)],
    )


WARM_UP_RUNS: Final = 10
"""Runs before the measurement, for connections, caches and statements."""
_RUN: Final = time.time_ns()
"""Part of the names that are written, so that they are new."""

Operation = Callable[[Transaction, int], Awaitable[object]]


@dataclass(frozen=True)
class Timing:
    name: str
    goal_seconds: float | None
    """Upper limit of the p50; None if there is no goal."""
    p50_seconds: float
    p95_seconds: float


@dataclass(frozen=True)
class _Measure:
    name: str
    goal_seconds: float | None
    work: Operation


async def measure(url: str, filled: FilledGraph, times: int) -> list[Timing]:
    """Time each operation `times` times, each in its own transaction."""
    database = Database(url, name="bench")
    try:
        async with database.transaction() as session:
            companies = [_company(filled, number) for number in range(WARM_UP_RUNS + times)]
            quotes = [quote_about(*company) for company in companies]
            quotes += [quote_about(_known(filled, number)) for number in range(len(companies))]
            await store_page(session, filled.scope, quotes)
        return [await _time(database, timed, times) for timed in _measures(filled)]
    finally:
        await database.close()


def _known(filled: FilledGraph, number: int) -> str:
    """The name of a node of the graph."""
    return filled.names[number % len(filled.names)]


def _company(filled: FilledGraph, number: int) -> tuple[str, int]:
    """Its name and how many employees it has."""
    return f"{filled.names[number % len(filled.names)].split()[0]} {_RUN} {number}", number


async def _time(database: Database, measure: _Measure, times: int) -> Timing:
    seconds = []
    for number in range(-WARM_UP_RUNS, times):
        began = time.perf_counter()
        async with database.transaction() as session:
            await measure.work(session, number + WARM_UP_RUNS)
        if number >= 0:
            seconds.append(time.perf_counter() - began)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    return Timing(measure.name, measure.goal_seconds, statistics.median(seconds), p95)


def _measures(filled: FilledGraph) -> Iterator[_Measure]:
    yield _Measure(
        "context",
        0.050,
        lambda session, _: context.build_survey(session, filled.scope, StepKind.OBSERVE),
    )
    yield from _lookups(filled)
    yield from _writes(filled)


def _lookups(filled: FilledGraph) -> Iterator[_Measure]:
    hub, ids = [filled.hub], filled.ids

    def by(name: str, goal: float | None, **values: Sequence[object]) -> _Measure:
        async def work(session: Transaction, number: int) -> None:
            params = {key: value[number % len(value)] for key, value in values.items()}
            await query.query_graph(session, filled.scope, **params)  # type: ignore[arg-type]  # values match their parameters

        return _Measure(name, goal, work)

    lately = datetime.now(UTC) - timedelta(days=3)
    names = filled.names
    yield by("by name", 0.010, text=names)
    yield by("by a word of names", None, text=[name.split()[0] for name in names])
    yield by("by a rare word of properties", None, text=filled.rare_words)
    yield by("by common words", None, text=["company corporation", "said group", "the bank"])
    yield by("by a misspelled name", None, text=[_misspell(name) for name in names])
    yield by("by type and time", 0.010, type_name=["Type3", "Type17"], updated_since=[lately])
    yield by("neighbourhood, depth 1", 0.010, ids=[[node_id] for node_id in ids], neighbours=[1])
    yield by("neighbourhood, depth 2", 0.010, ids=[[node_id] for node_id in ids], neighbours=[2])
    yield by("neighbourhood of a hub, depth 1", 0.010, ids=[hub], neighbours=[1])
    yield by("neighbourhood of a hub, depth 2", 0.010, ids=[hub], neighbours=[2])
    pairs = list(pairwise(ids))
    yield by("paths between two", None, between=pairs)


def _writes(filled: FilledGraph) -> Iterator[_Measure]:
    validators = Validators()

    async def add_node(session: Transaction, number: int) -> None:
        name, employees = _company(filled, number)
        await write_node(
            session,
            filled.scope,
            validators,
            type_name="Type1",
            name=name,
            properties={"summary": "What was found out just now.", "employees": employees},
            quote=quote_about(name, employees),
        )

    async def add_edge(session: Transaction, number: int) -> None:
        await write_edge(
            session,
            filled.scope,
            validators,
            type_name=f"type_{number % 5}",
            source_id=filled.hub,
            target_id=filled.ids[number % len(filled.ids)],
            quote=quote_about(_known(filled, number)),
        )

    yield _Measure("add a node", 0.005, add_node)
    yield _Measure("add an edge", 0.005, add_edge)


def _misspell(name: str) -> str:
    """Swap two letters in each of the first two words."""
    first, second, *remaining = name.split()
    return " ".join([_swap_letters(first), _swap_letters(second), *remaining])


def _swap_letters(word: str) -> str:
    return word[:2] + word[3:4] + word[2:3] + word[4:]
