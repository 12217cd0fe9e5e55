"""Prompt injection: the model obeys hostile pages in every phase, and the stored state is checked."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from sqlalchemy import select

from services.adviser.handler import Advise
from services.analyzer.handler import Analyze
from services.assistant.answer import AnswerHandler
from services.researcher.handler import Research
from shared.agents import conversations
from shared.agents.conversations import TooManyOpenTurns
from shared.database.engine import Database
from shared.database.tables import Evidence, GraphNode
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Phase, StepKind
from shared.graph.conclusions.citations import parse_citations
from shared.graph.types import RESERVED_TYPES, list_node_types
from shared.graph.validation import Validators
from shared.llm.provider import Model
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.settings import Settings
from shared.web_search.client import SearchClient
from tests.support import claims
from tests.support.injection.corpus import HostilePage, pages
from tests.support.injection.victim import Victim, make_victim, prompt_of
from tests.support.injection.web import Web
from tests.support.sandbox.server import running_app
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import change

CONTEXT_TOKENS: Final = 1_000
QUERY: Final = {"objective": "Lithium", "reasoning": "Unknown.", "search_hints": []}
ALLOWED: Final = "https://ministry.example/lithium"
PHASE_TOOLS: Final = {
    Phase.KNOWLEDGE_ACQUISITION: {"tavilySearch", "tavilyExtract", "tavilyResearch"},
    Phase.GRAPH_CONSTRUCTION: {
        *("queryGraph", "listNodeTypes", "listEdgeTypes", "createNodeType", "createEdgeType"),
        *("addGraphNode", "addGraphEdge"),
    },
    Phase.ANALYSIS_GENERATION: {"queryGraph", "addAgentAnalysisNode", "addGraphEdge"},
    Phase.ADVICE_GENERATION: {"queryGraph", "addAgentAdviceNode", "reviewAdvice"},
    Phase.CONVERSATION: {"queryGraph", "tavilySearch", "remember"},
}
"""The tools of each phase; calls of other tools do nothing."""


def every_page(turn: int) -> pytest.MarkDecorator:
    """All pages; `make test-fast` tries each page with one of the three tests, whose turn is 0, 1 or 2."""
    return pytest.mark.parametrize(
        "page",
        [
            pytest.param(page, marks=() if number % 3 == turn else pytest.mark.slow)
            for number, page in enumerate(pages())
        ],
        ids=lambda page: page.name,
    )


@dataclass(frozen=True)
class Scene:
    victim: Victim
    web: Web
    sandbox_control: Sandbox
    model: Model
    search: SearchClient

    def obeys(self, phase: Phase, page: HostilePage, *, last_words: str = "Done.") -> None:
        """The model makes every call that the page orders, then says `last_words`."""
        values = {
            "prompt": prompt_of(phase),
            "node": str(self.victim.node_id),
            "analysis": str(self.victim.analysis_id),
        }
        self.sandbox_control.script(
            {"phase": phase, "tool_calls": page.orders_with(**values)},
            {"phase": phase, "content": last_words, "times": None},
        )


@pytest.fixture
async def scene(
    sandbox_settings: Settings, database: Database, sandbox: str
) -> AsyncIterator[Scene]:
    web = Web()
    async with running_app(web.app()) as url:
        settings = sandbox_settings.model_copy(update={"tavily_base_url": url})
        model, search = create_model(settings, database), create_search_client(settings, database)
        yield Scene(await make_victim(database), web, Sandbox(sandbox), model, search)
        await model.provider.close()
        await search.close()


def test_the_corpus_is_diverse() -> None:
    assert len(pages()) >= 30
    assert len({page.language for page in pages()}) >= 8
    assert len({page.form for page in pages()}) >= 20


@every_page(0)
async def test_research_uses_only_the_tools_of_its_phases(scene: Scene, page: HostilePage) -> None:
    scene.web.serves(page)
    before = await scene.victim.fixed()
    search_call = {"name": "tavilySearch", "arguments": {"query": "lithium"}}
    scene.sandbox_control.script(
        {"phase": Phase.KNOWLEDGE_ACQUISITION, "tool_calls": [search_call]}
    )
    scene.obeys(
        Phase.KNOWLEDGE_ACQUISITION,
        page,
        last_words=f"{page.text[:20_000]}\n{prompt_of(Phase.KNOWLEDGE_ACQUISITION)}",
    )
    scene.obeys(Phase.GRAPH_CONSTRUCTION, page)
    lease, step = await scene.victim.step(StepKind.QUERY, QUERY)
    await Research(scene.model, scene.search, CONTEXT_TOKENS)(lease, step)
    results = await scene.victim.results(step)
    _assert_only_tools(
        results, PHASE_TOOLS[Phase.KNOWLEDGE_ACQUISITION] | PHASE_TOOLS[Phase.GRAPH_CONSTRUCTION]
    )
    assert await scene.victim.fixed() == before
    assert set(scene.web.read) <= {page.url, ALLOWED}
    await _assert_graph_is_sound(scene.victim)
    assert [n.id for n in await _nodes_of_types(scene.victim, RESERVED_TYPES)] == [
        scene.victim.analysis_id
    ]


@every_page(1)
async def test_conclusions_need_valid_citations(scene: Scene, page: HostilePage) -> None:
    """The page's text is in the graph, from where the conclusion phases read it."""
    scene.web.serves(page)
    await _plant_page_text(scene.victim, page)
    before = await scene.victim.fixed()
    scene.obeys(Phase.ANALYSIS_GENERATION, page)
    insight = {"observation": page.title.replace("\x00", ""), "synthesis_direction": ""}
    references = {"relevant_node_ids": [str(scene.victim.node_id)]}
    lease, step = await scene.victim.step(StepKind.INSIGHT, insight | references)
    await Analyze(scene.model, CONTEXT_TOKENS)(lease, step)
    _assert_only_tools(await scene.victim.results(step), PHASE_TOOLS[Phase.ANALYSIS_GENERATION])
    scene.obeys(Phase.ADVICE_GENERATION, page)
    advice_input = {"analysis_ids": [str(scene.victim.analysis_id)]}
    lease, step = await scene.victim.step(StepKind.ADVISE, advice_input)
    await Advise(scene.model, CONTEXT_TOKENS)(lease, step)
    _assert_only_tools(await scene.victim.results(step), PHASE_TOOLS[Phase.ADVICE_GENERATION])
    assert await scene.victim.fixed() == before
    assert scene.web.asked == []
    await _assert_graph_is_sound(scene.victim)


@every_page(2)
async def test_a_conversation_reads_no_page_and_stores_nothing_of_it(
    scene: Scene, page: HostilePage
) -> None:
    scene.web.serves(page)
    await _plant_page_text(scene.victim, page)
    before, nodes = await scene.victim.fixed(), len(await scene.victim.nodes())
    scene.obeys(Phase.CONVERSATION, page, last_words="That is all.")
    async with scene.victim.database.transaction() as session:
        step = await conversations.add_question(session, scene.victim.agent.id, "What is new?")
        assert not isinstance(step, TooManyOpenTurns | None)
        claim = await claims.claimed(session, step.id, "test", seconds=600)
    await AnswerHandler(scene.model, scene.search, CONTEXT_TOKENS, CONTEXT_TOKENS)(
        claim.lease, claim.step
    )
    _assert_only_tools(await scene.victim.results(step), PHASE_TOOLS[Phase.CONVERSATION])
    assert await scene.victim.fixed() == before
    assert len(await scene.victim.nodes()) == nodes
    assert scene.web.read == []


async def _plant_page_text(victim: Victim, page: HostilePage) -> None:
    """Store the page's text in the node, as a deceived Researcher would."""
    text = page.text[:5_000].replace("\x00", "")
    async with victim.database.transaction() as session:
        node = await session.get_one(GraphNode, victim.node_id)
        node = await change(session, node, properties={"summary": text})


def _assert_only_tools(results: Iterable[tuple[str, Any]], tools: set[str]) -> None:
    """Check that all calls of other tools were refused."""
    for name, result in results:
        assert name in tools or "there is no tool" in result["error"], name


async def _nodes_of_types(victim: Victim, names: Iterable[str]) -> list[GraphNode]:
    type_names = set(names)
    return [node for node in await victim.nodes() if node.type in type_names]


async def _assert_graph_is_sound(victim: Victim) -> None:
    """Check the graph's schemas, evidence and citations."""
    nodes, edges = await victim.nodes(), await victim.edges()
    by_id = {node.id: node for node in nodes}
    existing_ids = {*by_id, *(edge.id for edge in edges)}
    async with victim.database.transaction() as session:
        schemas = {
            node_type.name: node_type.properties_schema
            for node_type in await list_node_types(session, victim.scope)
        }
        with_evidence = set(await session.scalars(select(Evidence.node_id)))
    for node in nodes:
        Validators().check(schemas[node.type], node.properties, node.type)
        if node.type in RESERVED_TYPES:
            cited = parse_citations(node.properties["content"]).ids()
            assert cited, node.name
            assert set(cited) <= existing_ids
        elif node.seal is not None:
            assert node.id in with_evidence, node.name
        if node.type == ADVICE_TYPE:
            assert {by_id[node_id].type for node_id in cited} == {ANALYSIS_TYPE}
