"""The calls of one answer that write facts run together, with the results and the graph of calls that run one by one."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import select

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import GraphEdge, GraphNode, Source
from shared.database.transaction import Transaction
from shared.errors import RetrySoonError
from shared.graph.tools import analysis_generation, graph_construction
from shared.llm.toolset import StateCall
from shared.tools import Json, StateTool, ToolRefusalError
from tests.support.graph.agent_graph import PAGE, AgentGraph, make_agent_graph
from tests.support.graph.answers import Answer, calls_of, graph_state, run_together
from tests.support.graph.tooling import find_tool
from tests.support.marks import slow
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.sql_capture import captured_statements
from tests.support.table_rows import change

WALKS: Final = [seed_count() or 2, *slow(12)]
ANSWERS: Final = 8
MAX_FURTHER: Final = 4
"""Times as many walks, if too few answers were written together: of two walks, one in twenty has fewer than five."""
NAMES: Final = (
    *("Ghana", "GHANA", "Togo", "togo", "Benin", "Bénin", "Mali", "Peru", "Fiji", "Oman"),
    *("Northern Territory", "NORTHERN TERRITORY", "Côte d'Ivoire", "Cote d’Ivoire"),
)
SIMILAR: Final = ("Republic of Ghana", "Togoland", "Northern Territories", "N.T.", "Ivory Coast")
"""Names of which some may be duplicates of others."""
QUOTES: Final = (PAGE["content"], PAGE["content"][40:])


@dataclass(frozen=True)
class RandomAnswers:
    """Random answers of a model. Names repeat in other spellings; in half of the answers, some calls have a fault."""

    graph: AgentGraph
    chance: random.Random
    node_ids: list[str] = field(default_factory=list)
    """Countries that exist."""

    def next(self) -> list[tuple[str, Json]]:
        faults = 0.0 if self.chance.random() < 0.5 else 0.2
        added: list[str] = []
        return [self._call(added, faults) for _ in range(self.chance.randint(2, 7))]

    def _call(self, added: list[str], faults: float) -> tuple[str, Json]:
        if self._is(0.05):
            return "queryGraph", {"text": self.chance.choice(NAMES)}
        if self._is(faults / 2):
            return "addGraphEdge", {"type": "borders"}
        ends = sorted({*self.node_ids, *added})
        return (
            self._edge(ends, faults)
            if len(ends) > 1 and self._is(0.5)
            else self._node(added, faults)
        )

    def _node(self, added: list[str], faults: float) -> tuple[str, Json]:
        type_name = self.chance.choice(["Country", "Country", "Region"])
        name = self.chance.choice(SIMILAR if self._is(faults) else NAMES)
        # It has another id if a node of this name exists in another spelling.
        if type_name == "Country" or self._is(faults):
            added.append(str(ids.node_id(self.graph.scope.agent_id, type_name, name)))
        properties: Json = {"summary": self.chance.choice(["A state.", "A land."])}
        if self._is(0.3):
            properties["population"] = self.chance.choice([7, 8, {"value": 9}])
        if self._is(faults):
            properties["population"] = "many"
        arguments: Json = {
            "type": self._misspelled(type_name, faults),
            "name": name,
            "properties": properties,
            "evidence": [self._evidence(properties, faults)],
        }
        if self._is(faults):
            arguments["aliases"] = self.chance.sample(["Gold Coast", "The Interior", *SIMILAR], 1)
        if self._is(0.1 + faults) and self.node_ids:
            arguments["distinctFrom"] = [self.chance.choice(self.node_ids)]
        return "addGraphNode", arguments

    def _edge(self, node_ids: Sequence[str], faults: float) -> tuple[str, Json]:
        ends = [
            self.chance.choice(NAMES) if self._is(faults / 2) else node_id
            for node_id in self.chance.sample(node_ids, 2)
        ]
        return "addGraphEdge", {
            "type": self._misspelled("borders", faults),
            "sourceId": ends[0],
            "targetId": ends[1],
            "properties": {},
            "evidence": [self._evidence({}, faults)],
        }

    def _misspelled(self, name: str, faults: float) -> str:
        return (
            self.chance.choice([name.lower(), f"{name}s", "Planet"]) if self._is(faults) else name
        )

    def _evidence(self, properties: Json, faults: float) -> Json:
        evidence: Json = {"sourceUrl": PAGE["url"], "quote": self.chance.choice(QUOTES)}
        if self._is(faults):
            evidence["sourceUrl"] = self.chance.choice(
                [PAGE["url"] + "/", "https://unread.example/"]
            )
        if self._is(faults / 2):
            evidence["quote"] = "No page says this at all."
        if properties and self._is(faults):
            evidence["properties"] = self.chance.sample(sorted(properties), 1)
        return evidence

    def _is(self, share: float) -> bool:
        return self.chance.random() < share


def timeless(result: Json) -> Json:
    """The result without the time of writing, which differs."""
    nodes = [{**node, "updatedAt": None} for node in result.get("nodes", [])]
    return result | ({"nodes": nodes} if nodes else {})


async def run_alone(session: Transaction, call: StateCall) -> Json:
    """What a call does without what was looked up for it."""
    if call.arguments is None:
        return {"error": call.refusal}
    assert isinstance(call.tool, StateTool)
    try:
        async with session.savepoint():
            return await call.tool.run(session, call.arguments)
    except ToolRefusalError as refusal:
        return refusal.result


async def compare(graph: AgentGraph, tools: Sequence[StateTool[Any]], answer: Answer) -> bool:
    """Make the calls one by one, then, after a rollback, together. Returns whether none was refused."""
    async with graph.database.transaction() as session:
        expected = [await run_alone(session, call) for call in calls_of(tools, answer)]
        expected_state = await graph_state(session, graph)
        await session.rollback()
    calls = calls_of(tools, answer)
    results = await run_together(graph.database, calls, graph.scope.agent_id)
    assert list(map(timeless, results)) == list(map(timeless, expected)), answer
    async with graph.database.transaction() as session:
        assert await graph_state(session, graph) == expected_state, answer
    return all("error" not in result for result in results)


async def ids_of(
    graph: AgentGraph, table: type[GraphNode] | type[GraphEdge], kind: str
) -> list[str]:
    async with graph.database.transaction() as session:
        found = select(table.id).where(table.type == kind, table.agent_id == graph.scope.agent_id)
        return [str(element_id) for element_id in await session.scalars(found.order_by(table.id))]


async def walk(graph: AgentGraph, chance: random.Random) -> int:
    """Make random answers. Returns how many had no refused call."""
    together = 0
    answers = RandomAnswers(graph, chance)
    tools = graph_construction(graph.scope, graph.validators)
    for _ in range(ANSWERS):
        together += await compare(graph, tools, answers.next())
        answers.node_ids[:] = await ids_of(graph, GraphNode, "Country")
    return together


@dataclass(frozen=True)
class RandomAnalyses:
    """Random answers of a model that analyzes; in half of them, some calls have a fault."""

    graph: AgentGraph
    chance: random.Random
    node_ids: Sequence[str]
    edge_ids: Sequence[str]
    analyses: list[str] = field(default_factory=list)

    def next(self) -> Answer:
        faults = 0.0 if self.chance.random() < 0.5 else 0.25
        added: list[str] = []
        return [self._call(added, faults) for _ in range(self.chance.randint(1, 5))]

    def _call(self, added: list[str], faults: float) -> tuple[str, Json]:
        known = [*self.analyses, *added]
        if known and self._is(0.5):
            return self._link(known, faults)
        letters = self.chance.choices("abcdefgh", k=1 if self._is(faults) else 7)
        name = f"Growth {''.join(letters)}"
        added += [name, str(ids.node_id(self.graph.scope.agent_id, "AgentAnalysis", name))]
        return "addAgentAnalysisNode", {
            "name": name,
            "type": "observation",
            "summary": "It grows.",
            "content": f"It grows {' and '.join(self._citations(known, faults))}.",
            "confidence": 0.5,
            "horizon": self.chance.choice(["2 months", None]),
        }

    def _citations(self, analyses: Sequence[str], faults: float) -> list[str]:
        cited = [f"[node:{self.chance.choice(self.node_ids)}]"]
        if self._is(0.5):
            cited.append(f"[edge:{self.chance.choice(self.edge_ids)}]")
        if self._is(faults):
            cited.append(f"[node:{UUID(int=self.chance.getrandbits(128))}]")
        if analyses and self._is(faults):
            cited.append(f"[node:{self.chance.choice(analyses)}]")
        return [] if self._is(faults / 2) else cited

    def _link(self, analyses: Sequence[str], faults: float) -> tuple[str, Json]:
        return "addGraphEdge", {
            "type": "borders" if self._is(faults) else "about",
            "sourceId": self.chance.choice(self.node_ids if self._is(faults) else analyses),
            "targetId": self.chance.choice(self.node_ids),
        }

    def _is(self, share: float) -> bool:
        return self.chance.random() < share


async def walk_analyses(graph: AgentGraph, chance: random.Random) -> int:
    """Make random answers with analyses and links. Returns how many had no refused call."""
    nodes = [await graph.node(name) for name in ("Ghana", "Togo", "Mali")]
    for source, target in pairwise(nodes):
        await graph.edge(source, target)
    answers = RandomAnalyses(
        graph,
        chance,
        await ids_of(graph, GraphNode, "Country"),
        await ids_of(graph, GraphEdge, "borders"),
    )
    tools, together = analysis_generation(graph.scope, graph.validators), 0
    for _ in range(ANSWERS):
        together += await compare(graph, tools, answers.next())
        answers.analyses[:] = await ids_of(graph, GraphNode, "AgentAnalysis")
    return together


@pytest.mark.parametrize("walks", WALKS)
@pytest.mark.parametrize("walk_of", [walk, walk_analyses])
async def test_calls_that_run_together_do_what_they_do_one_by_one(
    database: Database,
    walk_of: Callable[[AgentGraph, random.Random], Awaitable[int]],
    walks: int,
) -> None:
    first, together = first_seed(), 0
    for seed in range(first, first + MAX_FURTHER * walks):
        if seed >= first + walks and together > 2 * walks:
            break
        with repeatable(seed):
            graph = await make_agent_graph(database, f"watcher {seed}")
            await graph.node_type("Region")
            together += await walk_of(graph, random.Random(seed))
    assert together > 2 * walks, "too few answers are written together"


async def test_edges_of_a_refused_node_are_refused_in_few_words(agent_graph: AgentGraph) -> None:
    """Another name of a node that is known holds for the edges of the answer."""
    evidence = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]
    node: Json = {"type": "Country", "properties": {"summary": "A state."}, "evidence": evidence}
    edge: Json = {"type": "borders", "sourceId": "Togo", "evidence": evidence}
    ghana = str(await agent_graph.node("Ghana"))
    tools = graph_construction(agent_graph.scope, agent_graph.validators)
    answer = [
        ("addGraphNode", {**node, "name": "Togo"}),
        ("addGraphNode", {**node, "name": "Atlantis"}),
        ("addGraphNode", {**node, "name": "Gold Coast", "sameAs": ghana}),
        ("addGraphEdge", {**edge, "targetId": "Atlantis"}),
        ("addGraphEdge", {**edge, "targetId": "Gold Coast"}),
        ("addGraphEdge", {**edge, "targetId": "Lemuria"}),
    ]
    calls = calls_of(tools, answer)
    _, refused, same, to_refused, to_same, to_unknown = await run_together(
        agent_graph.database, calls, agent_graph.scope.agent_id
    )
    assert refused["error"].startswith("no cited sentence names 'Atlantis'")
    assert refused["final"], "it is left out"
    assert to_refused == {
        "error": "targetId: its node was refused in this answer.",
        "final": True,
        "awaits": "Atlantis",
    }
    assert same["nodeId"] == ghana
    assert to_same["created"]
    assert "no node has this name" in to_unknown["error"]


async def test_links_of_a_refused_analysis_are_refused_in_few_words(
    agent_graph: AgentGraph,
) -> None:
    ghana = str(await agent_graph.node("Ghana"))
    analysis = {
        "type": "observation",
        "summary": "It grows.",
        "content": f"It grows [node:{ghana}].",
        "confidence": 0.5,
    }
    about = {"type": "about", "targetId": ghana}
    answer: Answer = [
        ("addAgentAnalysisNode", {**analysis, "name": "Ghana grows"}),
        ("addAgentAnalysisNode", {**analysis, "name": "Ghana shrinks", "content": "It shrinks."}),
        ("addGraphEdge", {**about, "sourceId": "Ghana grows"}),
        ("addGraphEdge", {**about, "sourceId": "Ghana shrinks"}),
    ]
    calls = calls_of(analysis_generation(agent_graph.scope, agent_graph.validators), answer)
    added, refused, linked, to_refused = await run_together(
        agent_graph.database, calls, agent_graph.scope.agent_id
    )
    assert (set(added), linked["created"]) == ({"nodeId", "notRead"} & set(added), True)
    assert "error" in refused
    assert "final" not in refused, "it can be corrected"
    assert to_refused == {
        "error": "sourceId: its node was refused in this answer.",
        "final": True,
        "awaits": "Ghana shrinks",
    }


def nodes_and_edges(graph: AgentGraph, names: Sequence[str]) -> list[tuple[str, Json]]:
    """New nodes, and an edge from each to the next."""
    evidence = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]
    nodes = [
        (
            "addGraphNode",
            {
                "type": "Country",
                "name": name,
                "properties": {"summary": "A state."},
                "evidence": evidence,
            },
        )
        for name in names
    ]
    node_ids = [str(ids.node_id(graph.scope.agent_id, "Country", name)) for name in names]
    edges = [
        (
            "addGraphEdge",
            {"type": "borders", "sourceId": source, "targetId": target, "evidence": evidence},
        )
        for source, target in pairwise(node_ids)
    ]
    return [*nodes, *edges]


async def test_the_number_of_statements_that_write_does_not_grow_with_the_calls(
    agent_graph: AgentGraph,
) -> None:
    tools = graph_construction(agent_graph.scope, agent_graph.validators)
    written = []
    for names in (["Ghana", "Mali"], ["Peru", "Fiji", "Chad", "Oman", "Laos", "Cuba", "Iran"]):
        calls = calls_of(tools, nodes_and_edges(agent_graph, names))
        with captured_statements() as statements:
            results = await run_together(agent_graph.database, calls, agent_graph.scope.agent_id)
        assert all(result["created"] for result in results)
        written.append(sum("insert into" in statement for statement, _ in statements))
    assert written == [1, 1]


async def test_a_node_that_another_transaction_writes_meanwhile_is_updated(
    agent_graph: AgentGraph,
) -> None:
    """What takes no lock of the tools may write a node between the look-up and the write: then the step is retried."""
    tools = graph_construction(agent_graph.scope, agent_graph.validators)
    [add_node] = [tool for tool in tools if tool.name == "addGraphNode"]
    node_id = ids.node_id(agent_graph.scope.agent_id, "Country", "Ghana")

    async def write_meanwhile(session: Transaction, arguments: Any) -> Json:
        if not others:
            others.append(await agent_graph.node("Ghana"))
        return await add_node.run(session, arguments)

    others: list[Any] = []
    answer = nodes_and_edges(agent_graph, ["Mali", "Ghana"])
    calls = calls_of(
        [replace(add_node, run=write_meanwhile), find_tool(tools, "addGraphEdge")], answer
    )
    with pytest.raises(
        RetrySoonError, match="rows were written by another transaction in the meantime"
    ):
        await run_together(agent_graph.database, calls, agent_graph.scope.agent_id)
    results = await run_together(agent_graph.database, calls, agent_graph.scope.agent_id)
    assert [result["created"] for result in results] == [True, False, True]
    assert results[1]["nodeId"] == str(node_id)


async def test_a_page_that_is_retracted_meanwhile_supports_nothing(agent_graph: AgentGraph) -> None:
    tools = graph_construction(agent_graph.scope, agent_graph.validators)
    [add_node] = [tool for tool in tools if tool.name == "addGraphNode"]

    async def retract_meanwhile(session: Transaction, arguments: Any) -> Json:
        async with agent_graph.database.transaction() as other:
            for source in await other.scalars(select(Source)):
                await change(other, source, retracted_at=source.fetched_at)
        return await add_node.run(session, arguments)

    calls = calls_of(
        [replace(add_node, run=retract_meanwhile), find_tool(tools, "addGraphEdge")],
        nodes_and_edges(agent_graph, ["Mali", "Ghana"]),
    )
    with pytest.raises(RetrySoonError, match="retracted"):
        await run_together(agent_graph.database, calls, agent_graph.scope.agent_id)
    async with agent_graph.database.transaction() as session:
        assert (await graph_state(session, agent_graph))["nodes"] == []
