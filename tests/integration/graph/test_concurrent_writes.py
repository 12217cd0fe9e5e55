"""Researchers that write the same names at the same time, in other spellings, leave the graph of a serial run."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final
from uuid import uuid4

import pytest
from sqlalchemy import select

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import GraphName, GraphNode
from shared.enums import StepKind
from shared.errors import RetrySoonError
from shared.graph.entity_resolution.normalization import normalize
from shared.graph.scope import GraphScope
from shared.graph.tools import graph_construction
from shared.tools import Json
from tests.support import canonical_graph
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.answers import Answer, calls_of, run_together
from tests.support.marks import slow
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.spelling import one_json

SEEDS: Final = [seed_count() or 1, *slow(4)]
RESEARCHERS: Final = 3
ANSWERS: Final = 4
MAX_RETRIES: Final = 20
TYPE: Final = "Company"
NAMES: Final = (
    *("Halden Batteries", "Orran Metals", "Kestrel Cells", "Vanterra Motors"),
    *("Müller-Werke", "Zugspitz Optik", "L'Ibexa Foods", "Quellmann & Daur"),
)
SPELLINGS: Final = (
    "{}",
    "{} Corp.",
    "The {} Company",
    "{}, Inc.",
    "{} GmbH & Co. KG",
    "{} S.p.A.",
)
SIMILAR: Final = ("Halden Battery", "Orran Metal", "Kestrel Cell", "Vanterra Motor")
"""Whether they are refused depends on what was written before."""


def spelled(name: str, chance: random.Random) -> str:
    letters = chance.choice([name, name.upper(), name.lower()])  # an accent tells names apart
    letters = chance.choice([letters, letters.replace("-", " "), letters.replace("'", "’")])
    return chance.choice(SPELLINGS).format(letters)


def page(researcher: int) -> Json:
    """Each researcher reads a page of another date, so that it is certain which value is the latest."""
    tickers = [f"Ticker{number}" for number in range(len(NAMES))]
    return {
        "url": f"https://news.example/{researcher}",
        "title": f"News of {', '.join([*NAMES, *SIMILAR, *tickers])}",
        "content": f"What is known about these companies, as edition {researcher} tells it.",
        "published_date": f"2025-0{researcher + 1}-01",
    }


def answer_of(researcher: int, chance: random.Random, faults: float) -> Answer:
    """Nodes, one of them twice, and an edge from each to the next, by other spellings of their names."""
    quoted = page(researcher)
    evidence = [{"sourceUrl": quoted["url"], "quote": quoted["content"]}]
    names = chance.sample(NAMES, chance.randint(2, 4))
    calls: list[tuple[str, Json]] = []
    for name in [*names, chance.choice(names)]:
        written = spelled(name, chance)
        if chance.random() < faults:
            written = chance.choice(SIMILAR)
        arguments: Json = {"type": TYPE, "name": written, "evidence": evidence}
        arguments["properties"] = {"summary": "A company.", "population": researcher}
        if chance.random() < 0.4:
            owner = chance.choice(NAMES) if chance.random() < faults else name
            arguments["aliases"] = [f"Ticker{NAMES.index(owner)}"]
        calls.append(("addGraphNode", arguments))
    for source, target in pairwise(names):
        ends = {"sourceId": spelled(source, chance), "targetId": spelled(target, chance)}
        calls.append(("addGraphEdge", {"type": "supplies", "evidence": evidence, **ends}))
    return calls


@dataclass(frozen=True)
class Iteration:
    """The query steps of an iteration, each with a researcher that gives some answers."""

    graph: AgentGraph
    scopes: Sequence[GraphScope]

    @classmethod
    async def start(cls, database: Database, name: str) -> "Iteration":
        graph = await make_agent_graph(database, name)
        await graph.node_type(TYPE)
        await graph.edge_type("supplies")
        iteration_id = uuid4()
        scopes = [
            replace(
                graph.scope,
                iteration_id=iteration_id,
                step_id=ids.step_id(iteration_id, StepKind.QUERY, researcher),
            )
            for researcher in range(RESEARCHERS)
        ]
        for researcher, scope in enumerate(scopes):
            reader = replace(graph, scope=scope)
            await reader.store_search_results({"results": [page(researcher)]})
        return cls(graph, scopes)

    async def write(
        self, database: Database, researcher: int, answer: Answer, order: list[int]
    ) -> list[bool]:
        """Which calls of the answer were not refused. Adds the researcher to `order` when no other one can write."""
        tools = graph_construction(self.scopes[researcher], self.graph.validators)
        calls = calls_of(tools, answer)
        for _ in range(MAX_RETRIES):
            begun = len(order)
            try:
                results = await run_together(
                    database, calls, self.graph.scope.agent_id, lambda: order.append(researcher)
                )
            except RetrySoonError:
                del order[begun:]
                continue
            return ["error" not in result for result in results]
        raise AssertionError(f"the answer of researcher {researcher} was not written")

    async def state(self) -> Json:
        """The graph, and which names each node has."""
        names = (
            select(GraphName.key, GraphName.name, GraphNode.name)
            .join(GraphNode, GraphNode.id == GraphName.node_id)
            .where(GraphName.agent_id == self.graph.scope.agent_id)
            .order_by(GraphName.key)
        )
        async with self.graph.database.transaction() as session:
            graph = await canonical_graph.canonical(session, self.graph.scope)
            return {**graph, "names": [list(row) for row in await session.execute(names)]}


def _by_key(state: Json) -> Json:
    """The state without what depends on the order of writing: which spelling has come first."""

    def key(name: str) -> str:
        return normalize(name, TYPE).key

    return {
        "nodes": _sorted({**node, "name": key(node["name"])} for node in state["nodes"]),
        "edges": _sorted(
            {**edge, "source": key(edge["source"][1]), "target": key(edge["target"][1])}
            for edge in state["edges"]
        ),
        "names": [(name_key, key(node)) for name_key, _, node in state["names"]],
    }


def _sorted(elements: Iterable[Json]) -> list[Json]:
    return sorted(elements, key=one_json)


async def write_in_parallel(
    iteration: Iteration, url: str, answers: Sequence[Sequence[Answer]]
) -> tuple[list[int], list[list[list[bool]]]]:
    """Each researcher on connections of its own. The order in which they wrote, and the results of each."""
    order: list[int] = []

    async def research(researcher: int) -> list[list[bool]]:
        database = Database(url, name=f"researcher {researcher}", pool_size=1)
        try:
            return [
                await iteration.write(database, researcher, answer, order)
                for answer in answers[researcher]
            ]
        finally:
            await database.close()

    return order, await asyncio.gather(*map(research, range(RESEARCHERS)))


async def compare(database: Database, url: str, seed: int, faults: float) -> int:
    """Returns how often one researcher wrote after another."""
    chance = random.Random(seed)
    answers = [
        [answer_of(researcher, chance, faults) for _ in range(ANSWERS)]
        for researcher in range(RESEARCHERS)
    ]
    parallel = await Iteration.start(database, f"parallel {seed} {faults}")
    order, results = await write_in_parallel(parallel, url, answers)
    assert len(order) == RESEARCHERS * ANSWERS

    # One after the other, in the same order: the same results, and the same graph.
    serial = await Iteration.start(database, f"serial {seed} {faults}")
    written: list[list[list[bool]]] = [[] for _ in range(RESEARCHERS)]
    for researcher in order:
        answer = answers[researcher][len(written[researcher])]
        written[researcher].append(await serial.write(database, researcher, answer, []))
    assert written == results
    state = await parallel.state()
    assert state == await serial.state()

    refused = [not is_done for researcher in results for answer in researcher for is_done in answer]
    assert any(refused) == bool(faults)
    if not faults:
        # In another order: the same, except for the spelling of names.
        ordered = await Iteration.start(database, f"ordered {seed}")
        for researcher in range(RESEARCHERS):
            for answer in answers[researcher]:
                await ordered.write(database, researcher, answer, [])
        assert _by_key(state) == _by_key(await ordered.state())
    return sum(one != next_one for one, next_one in pairwise(order))


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("faults", [0.0, 0.3])
async def test_researchers_in_parallel_leave_the_graph_of_a_serial_run(
    database: Database, database_url: str, faults: float, seeds: int
) -> None:
    first, turns = first_seed(), 0
    for seed in range(first, first + seeds):
        with repeatable(seed):
            turns += await compare(database, database_url, seed, faults)
    assert turns > seeds * RESEARCHERS, "the researchers did not write at the same time"
