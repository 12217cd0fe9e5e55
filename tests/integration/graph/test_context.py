"""What a phase sees of the graph."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

from shared.graph import context
from shared.graph.conclusions import conclusions
from shared.graph.prompt_format import CHARS_PER_TOKEN
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.descriptions import describe_analyses, describe_nodes, resolve_references
from tests.support.sql_capture import captured_statements

LONG_AGO = datetime.now(UTC) - timedelta(days=22)


async def _build(agent_graph: AgentGraph, token_budget: int = 6_000) -> str:
    async with agent_graph.database.transaction() as session:
        return await context.build_survey(session, agent_graph.scope, token_budget=token_budget)


async def _analysis(agent_graph: AgentGraph, name: str, cited: UUID) -> UUID:
    async with agent_graph.database.transaction() as session:
        return await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name=name,
            kind="pattern",
            summary=f"{name} in short.",
            content=f"See [node:{cited}].",
            confidence=0.5,
        )


def _section(text: str, title: str) -> list[str]:
    _, _, rest = text.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0].splitlines()


async def test_the_survey_of_an_empty_graph_lists_only_types(agent_graph: AgentGraph) -> None:
    text = await _build(agent_graph)
    assert text.splitlines()[0].endswith(
        ": 0 nodes, 0 edges, 3 node types, 2 edge types, 0 analyses, 0 advice."
    )
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Node types",
        "## Edge types",
    ]


async def test_sections_have_the_expected_order_and_format(agent_graph: AgentGraph) -> None:
    await agent_graph.node_type("Regulation")
    ghana, togo = await agent_graph.node("Ghana", capital="Accra"), await agent_graph.node('To"go')
    border = await agent_graph.edge(ghana, togo)
    rule = await agent_graph.node("Old rule", "Regulation")
    await agent_graph.touch(rule, updated_at=LONG_AGO)
    analysis = await _analysis(agent_graph, "Growth", ghana)
    second = await _analysis(agent_graph, "Size", ghana)
    async with agent_graph.database.transaction() as session:
        advice = await conclusions.add_advice(
            session,
            agent_graph.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"[node:{analysis}] [node:{second}]",
            **ADVICE_TERMS,
        )
    await agent_graph.iteration(1, queries=["What grows?\nWhere?"], missing=["figures of\n2025"])
    text = await _build(agent_graph)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Node types",
        "## Edge types",
        "## Newest nodes",
        "## Best connected nodes",
        "## Stale regions",
        "## Newest edges",
        "## Analyses",
        "## Advice",
        "## Open investigation requests",
        "## Recently asked",
    ]
    assert "6 nodes, 1 edges, 4 node types, 2 edge types, 2 analyses, 1 advice." in text
    assert "- Country: A Country of the world (2 nodes)" in _section(text, "Node types")
    assert "- borders: what borders says (1 edges)" in _section(text, "Edge types")
    newest = _section(text, "Newest nodes")
    assert newest[0].startswith(f'- [node:{togo}] Country "To\\"go" {{"summary": "A state."}}  (up')
    assert newest[1].startswith(
        f'- [node:{ghana}] Country "Ghana" {{"summary": "A state.", "capital": "Accra"}}  (updated '
    )
    assert len(newest) == 3, "conclusions have sections of their own"
    assert f'- [node:{ghana}] Country "Ghana" (1 edges)' in _section(text, "Best connected nodes")
    assert _section(text, "Stale regions") == [
        f'- 1 Regulation nodes, last touched 3 weeks ago, for instance [node:{rule}] "Old rule"'
    ]
    assert _section(text, "Newest edges") == [f'- [edge:{border}] "Ghana" -borders-> "To\\"go"']
    assert _section(text, "Analyses") == [
        f'- [node:{second}] pattern "Size": Size in short.',
        f'- [node:{analysis}] pattern "Growth": Growth in short.',
    ]
    assert _section(text, "Advice") == [f'- [node:{advice}] HOLD "Wait": Wait.']
    (request,) = _section(text, "Open investigation requests")
    assert re.fullmatch(r"- \[request:[0-9a-f-]{36}\] figures of 2025 \(lacking .* 1\)", request)
    assert _section(text, "Recently asked") == ["- iteration 1, nothing found: What grows? Where?"]


async def test_a_region_is_stale_only_when_none_of_it_was_touched(agent_graph: AgentGraph) -> None:
    old = await agent_graph.node("Ghana")
    await agent_graph.touch(old, updated_at=LONG_AGO)
    assert len(_section(await _build(agent_graph), "Stale regions")) == 1
    await agent_graph.node("Togo")
    assert _section(await _build(agent_graph), "Stale regions") == []


async def test_the_budget_is_respected_and_analyses_precede_nodes(agent_graph: AgentGraph) -> None:
    nodes = [await agent_graph.node(f"Country {number}", capital="x" * 400) for number in range(60)]
    for number in range(8):
        await _analysis(agent_graph, f"Pattern {number}", nodes[number])
    text = await _build(agent_graph, token_budget=1_000)
    assert len(text) <= 1_000 * CHARS_PER_TOKEN
    assert len(_section(text, "Analyses")) == 8
    assert 0 < len(_section(text, "Newest nodes")) < 40
    long_text = await _build(agent_graph, token_budget=100_000)
    assert len(_section(long_text, "Newest nodes")) == 40, "the list is bounded even with room"
    assert "x" * 239 + "…" in long_text
    assert "x" * 240 not in long_text


async def test_the_same_graph_yields_the_same_text(agent_graph: AgentGraph) -> None:
    same_moment = datetime.now(UTC)
    nodes = [await agent_graph.node(f"Country {number}") for number in range(20)]
    for node, other in pairwise(nodes):
        await agent_graph.edge(node, other)
    for node in nodes:
        await agent_graph.touch(node, updated_at=same_moment)
    first, second = await _build(agent_graph, 2_000), await _build(agent_graph, 2_000)
    assert first.splitlines()[1:] == second.splitlines()[1:]


async def test_only_the_last_iterations_are_listed(agent_graph: AgentGraph) -> None:
    for number in range(1, 12):
        await agent_graph.iteration(
            number, queries=[f"objective {number}"], missing=[f"data {number}"]
        )
    await agent_graph.iteration(12, queries=[], missing=["Data 11"])
    text = await _build(agent_graph)
    assert _section(text, "Recently asked") == [
        f"- iteration {number}, nothing found: objective {number}" for number in (11, 10, 9)
    ]
    requests = [line.split("] ")[1] for line in _section(text, "Open investigation requests")]
    assert requests == [
        "Data 11 (lacking since iteration 12)",
        *(f"data {number} (lacking since iteration {number})" for number in range(10, 2, -1)),
    ]


async def test_relevant_nodes_come_with_edges_and_neighbours(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana = await agent_graph.node("Ghana", capital="a" * 500)
    togo, benin = await agent_graph.node("Togo"), await agent_graph.node("Benin", capital="b" * 500)
    near, far = await agent_graph.edge(ghana, togo), await agent_graph.edge(togo, benin)
    foreign_node = await stranger.node("Mali")
    async with agent_graph.database.transaction() as session:
        text = await describe_nodes(
            session, agent_graph.scope, [togo, ghana, foreign_node, uuid4()]
        )
    assert text.splitlines() == [
        f'- [node:{togo}] Country "Togo" {{"summary": "A state."}}',
        f'- [node:{ghana}] Country "Ghana" {{"capital": "{"a" * 500}", "summary": "A state."}}',
        f'- [edge:{far}] "Togo" -borders-> "Benin" {{}}',
        f'- [edge:{near}] "Ghana" -borders-> "Togo" {{}}',
        f'- [node:{benin}] Country "Benin" {{"summary": "A state.", "capital": "{"b" * 239}…"}}',
    ]


async def test_only_analyses_are_described_in_full(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    first, second = (
        await _analysis(agent_graph, "First", ghana),
        await _analysis(agent_graph, "Second", ghana),
    )
    async with agent_graph.database.transaction() as session:
        text = await describe_analyses(session, agent_graph.scope, [second, ghana, first])
        assert await describe_nodes(session, agent_graph.scope, []) == ""
        assert await describe_analyses(session, agent_graph.scope, [ghana]) == ""
    lines = text.splitlines()
    assert lines[0] == (
        f'- [node:{second}] AgentAnalysis "Second" {{"type": "pattern", "summary": "Second in short.", '
        f'"content": "See [node:{ghana}].", "confidence": 0.5}}'
    )
    assert lines[1].startswith(f"- [node:{first}]")
    assert len(lines) == 2


async def test_references_are_resolved_or_dropped(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    await agent_graph.node_type("River")
    ghana, cote = await agent_graph.node("Ghana"), await agent_graph.node("Côte d'Ivoire")
    volta, volta_country = await agent_graph.node("Volta", "River"), await agent_graph.node("Volta")
    foreign_node = await stranger.node("Mali")
    unknown = str(uuid4())
    async with agent_graph.database.transaction() as session:
        node_ids, unresolved = await resolve_references(
            session,
            agent_graph.scope,
            [
                f"[node:{ghana}]",
                "  CôTE  d'ivoire ",
                str(foreign_node),
                "volta",
                str(ghana),
                unknown,
                "Mali",
                "",
                "nul\x00",
            ],
        )
        assert await resolve_references(session, agent_graph.scope, []) == ([], [])
    assert node_ids == [ghana, cote, volta_country, volta]
    assert unresolved == [str(foreign_node), unknown, "Mali", "", "nul\x00"]


async def test_resolving_references_sends_only_the_necessary_statements(
    agent_graph: AgentGraph,
) -> None:
    ghana = await agent_graph.node("Ghana")
    statement_counts = []
    async with agent_graph.database.transaction() as session:
        for references in ([], [str(ghana)], ["Ghana"], [str(ghana), "Ghana"]):
            with captured_statements() as statements:
                await resolve_references(session, agent_graph.scope, references)
            statement_counts.append(len(statements))
    assert statement_counts == [0, 1, 1, 2]


async def test_nothing_of_another_agent_is_shown(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    foreign_node = await stranger.node("Mali")
    await _analysis(stranger, "Theirs", foreign_node)
    await stranger.iteration(1, queries=["their question"], missing=["their data"])
    text = await _build(agent_graph)
    assert "Mali" not in text
    assert "their" not in text.lower()
