"""What a phase sees of the graph."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from shared.database.statements import Batch
from shared.database.tables import Iteration, Step
from shared.enums import StepKind, StepStatus
from shared.graph import context
from shared.graph.elements import add_node
from shared.graph.prompt_format import byte_length
from shared.graph.provenance.evidence import EvidenceInput
from shared.workflow import investigations
from shared.workflow.investigations import Answer
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.descriptions import describe_analyses, describe_nodes, resolve_references
from tests.support.sql_capture import captured_statements

LONG_AGO = datetime.now(UTC) - timedelta(days=22)


async def _build(
    agent_graph: AgentGraph, token_budget: int = 6_000, kind: StepKind = StepKind.OBSERVE
) -> str:
    async with agent_graph.database.transaction() as session:
        return await context.build_survey(
            session, agent_graph.scope, kind, token_budget=token_budget
        )


async def _analysis(agent_graph: AgentGraph, name: str, cited: UUID) -> UUID:
    return await agent_graph.analysis(f"See [node:{cited}].", name, summary=f"{name} in short.")


def _section(text: str, title: str) -> list[str]:
    _, _, rest = f"\n{text}".partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0].splitlines()


async def test_the_survey_of_an_empty_graph_lists_only_types(agent_graph: AgentGraph) -> None:
    text = await _build(agent_graph)
    assert "AgentAnalysis" not in text, "nobody plans or writes nodes of these types by hand"
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
    advice = await agent_graph.advice(f"[node:{analysis}] [node:{second}]")
    await agent_graph.iteration(1, queries=["What grows?\nWhere?"], missing=["figures of\n2025"])
    text = await _build(agent_graph)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Node types",
        "## Edge types",
        "## Nodes by type",
        "## Analyses",
        "## Advice",
        "## Stale nodes",
        "## Best connected nodes",
        "## Newest edges",
        "## Newest nodes",
        "## Open investigation requests",
        "## Recently asked",
    ]
    assert "- Country: A Country of the world" in _section(text, "Node types")
    assert "- borders: what borders says (Country -> Country)" in _section(text, "Edge types")
    assert _section(text, "Nodes by type") == [
        '- Country: "Ghana", "To\\"go"',
        '- Regulation: "Old rule"',
    ], "conclusions have sections of their own"
    assert _section(text, "Newest nodes") == [
        '- Regulation "Old rule" {"summary": "A state."}',
        '- Country "Ghana" {"summary": "A state.", "capital": "Accra"}',
        '- Country "To\\"go" {"summary": "A state."}',
    ], "the newest is the last one"
    assert '- Country "Ghana" (1 edges)' in _section(text, "Best connected nodes")
    assert _section(text, "Stale nodes") == ['- Regulation "Old rule", last confirmed 3 weeks ago']
    assert _section(text, "Newest edges") == ['- "Ghana" -borders-> "To\\"go"']
    assert _section(text, "Analyses") == [
        '- pattern "Growth": Growth in short.',
        '- pattern "Size": Size in short.',
    ]
    assert _section(text, "Advice") == ['- HOLD "Wait": Wait.']
    (request,) = _section(text, "Open investigation requests")
    assert re.fullmatch(r"- \[request:[0-9a-f-]{36}\] figures of 2025 \(lacking .* 1\)", request)
    assert _section(text, "Recently asked") == ["- iteration 1, not found: What grows? Where?"]
    in_conversation = await _build(agent_graph, kind=StepKind.CONVERSE)
    assert f'- [node:{ghana}] Country "Ghana" {{' in in_conversation
    assert f'- [edge:{border}] "Ghana"' in in_conversation
    assert f'- [node:{advice}] HOLD "Wait": Wait.' in in_conversation


async def test_types_of_edges_are_shown_as_they_are_restricted(agent_graph: AgentGraph) -> None:
    kinds = ["Event", "Measure", "Project", "Person", "Place"]
    for kind in kinds:
        await agent_graph.node_type(kind)
    ends = {"source_types": kinds[:2], "target_types": ["Project"]}
    await agent_graph.edge_type("affects", **ends)
    await agent_graph.edge_type("names", target_types=kinds)
    for kind in (StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT, StepKind.CONVERSE):
        lines = _section(await _build(agent_graph, kind=kind), "Edge types")
        assert any("affects" in line and "(Event|Measure -> Project" in line for line in lines)
        assert any("(any -> Event|Measure|Project|Person|Place" in line for line in lines)
        assert not any("any -> any" in line for line in lines)


async def test_what_was_not_found_is_shown_with_its_date(agent_graph: AgentGraph) -> None:
    await agent_graph.iteration(1, queries=[], missing=["figures of 2025", "figures of 2026"])
    request = investigations.request_id(agent_graph.scope.agent_id, "figures of 2025")
    async with agent_graph.database.transaction() as session:
        statements = {request: "No page has them."}
        await investigations.mark_not_found(agent_graph.scope.agent_id, statements).execute(session)
    for kind in (StepKind.OBSERVE, StepKind.INSIGHT, StepKind.CONVERSE):
        text = await _build(agent_graph, kind=kind)
        (line,) = _section(text, "Not found")
        assert re.fullmatch(
            r"- 20\d\d-\d\d-\d\d: figures of 2025 \(not found: No page has them.\)", line
        )
        (still_open,) = _section(text, "Open investigation requests")
        assert "figures of 2026" in still_open


async def test_what_was_answered_in_part_is_shown_with_its_answer_and_what_is_missing(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.iteration(1, queries=[], missing=["figures of 2025"])
    node = await agent_graph.unproven("Lake Orran")
    request = investigations.request_id(agent_graph.scope.agent_id, "figures of 2025")
    async with agent_graph.database.transaction() as session:
        by = await session.scalar(select(Step.id).limit(1))
        assert by is not None
        await investigations.mark_answered(
            agent_graph.scope.agent_id,
            {request: Answer([node])},
            by=by,
            not_found={request: "Those of December."},
        ).execute(session)
    for kind in (StepKind.OBSERVE, StepKind.INSIGHT):
        shown = await _build(agent_graph, kind=kind)
        (line,) = _section(shown, "Answered in part")
        assert line.endswith(
            'figures of 2025 (answered in part by "Lake Orran"; not found: Those of December.)'
        )


async def test_an_analyzer_is_shown_what_the_queries_of_its_iteration_wrote(
    agent_graph: AgentGraph,
) -> None:
    """Each element with its id, and the values that it was given with their dates; nothing of earlier iterations."""
    await agent_graph.node("Mali")
    iteration, query, insight = uuid4(), uuid4(), uuid4()
    of_agent = {"agent_id": agent_graph.scope.agent_id}
    async with agent_graph.database.transaction() as session:
        await session.insert(
            Iteration, id=iteration, number=1, why="due", deadline_at=LONG_AGO, **of_agent
        )
        for step_id, kind in ((query, StepKind.QUERY), (insight, StepKind.INSIGHT)):
            values = {"id": step_id, "iteration_id": iteration, "kind": kind, "index": 0}
            await session.insert(Step, **values, **of_agent, status=StepStatus.COMPLETED)
    scope = replace(agent_graph.scope, iteration_id=iteration, step_id=query)
    of_query = replace(agent_graph, scope=scope)
    ghana = await of_query.node("Ghana", population=33)
    togo = await of_query.node("Togo")
    border = await of_query.edge(ghana, togo)
    lines = await agent_graph.database.run(context.written_lines(replace(scope, step_id=insight)))
    shown = lines.splitlines()
    assert [line.split("]")[0] for line in shown] == [
        f"- [node:{ghana}",
        f"- [node:{togo}",
        f"- [edge:{border}",
    ]
    assert '"population": 33' in shown[0]
    assert re.search(r"\(20\d\d-\d\d-\d\d\)$", shown[0])
    other = replace(scope, iteration_id=uuid4())
    assert await agent_graph.database.run(context.written_lines(other)) == ""


async def test_an_analyzer_is_shown_all_that_was_written_and_nothing_that_was_superseded(
    agent_graph: AgentGraph,
) -> None:
    iteration, query = uuid4(), uuid4()
    of_agent = {"agent_id": agent_graph.scope.agent_id}
    async with agent_graph.database.transaction() as session:
        await session.insert(
            Iteration, id=iteration, number=1, why="due", deadline_at=LONG_AGO, **of_agent
        )
        values = {"id": query, "iteration_id": iteration, "kind": StepKind.QUERY, "index": 0}
        await session.insert(Step, **values, **of_agent, status=StepStatus.COMPLETED)
    scope = replace(agent_graph.scope, iteration_id=iteration, step_id=query)
    of_query = replace(agent_graph, scope=scope)
    for number in range(22):
        await of_query.node(f"Country {number}", capital="x" * 100)
    await of_query.node("Ghana", population=3)
    await of_query.node("Ghana", population=4)
    lines = (await agent_graph.database.run(context.written_lines(scope))).splitlines()
    assert len(lines) == 23
    [ghana] = [line for line in lines if '"Ghana"' in line]
    assert '"population": 4' in ghana
    assert '"population": 3' not in ghana


async def test_the_adviser_is_shown_earlier_analyses_with_their_ids(
    agent_graph: AgentGraph,
) -> None:
    analysis = await _analysis(agent_graph, "Growth", await agent_graph.node("Ghana"))
    text = await _build(agent_graph, kind=StepKind.ADVISE)
    assert _section(text, "Analyses") == [f'- [node:{analysis}] pattern "Growth": Growth in short.']


async def test_the_adviser_is_not_shown_twice_what_its_message_has_in_full(
    agent_graph: AgentGraph,
) -> None:
    ghana = await agent_graph.node("Ghana")
    earlier, new = [await _analysis(agent_graph, name, ghana) for name in ("Growth", "Decline")]
    batch = Batch()
    survey = context.prepare_survey(
        batch, agent_graph.scope, StepKind.ADVISE, token_budget=6_000, shown=[new]
    )
    async with agent_graph.database.connection() as connection:
        await batch.execute(connection)
    assert _section(survey.value, "Analyses") == [
        f'- [node:{earlier}] pattern "Growth": Growth in short.'
    ]


async def test_a_node_is_stale_however_fresh_its_type_is(agent_graph: AgentGraph) -> None:
    old = await agent_graph.node("Ghana")
    await agent_graph.touch(old, updated_at=LONG_AGO)
    await agent_graph.node("Togo")
    assert _section(await _build(agent_graph), "Stale nodes") == [
        '- Country "Ghana", last confirmed 3 weeks ago'
    ]


async def test_a_researcher_sees_types_with_their_properties_names_and_pages(
    agent_graph: AgentGraph,
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge(ghana, togo)
    await _analysis(agent_graph, "Growth", ghana)
    text = await _build(agent_graph, kind=StepKind.QUERY)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Node types",
        "## Edge types",
        "## Nodes by type",
        f"## {context.PAGES_READ}",
    ]
    [country] = [line for line in _section(text, "Node types") if line.startswith("- Country: ")]
    assert country.endswith(" (capital: string, summary*: string, population: integer)")
    assert _section(text, context.PAGES_READ)
    without = [line for line in text.splitlines() if line.startswith(("## ", '- Country: "'))]
    assert context.without_types(text).splitlines()[0] == "## Nodes by type"
    assert set(without[2:]) <= set(context.without_types(text).splitlines())


async def test_the_pages_that_were_read_last_come_first(agent_graph: AgentGraph) -> None:
    for number in (3, 1, 2):
        page = {"url": f"https://page.example/{number}", "content": f"{number} people."}
        await agent_graph.store_search_results({"results": [page]})
    pages = _section(await _build(agent_graph, kind=StepKind.QUERY), context.PAGES_READ)
    assert pages[:3] == [f"- https://page.example/{number}" for number in (2, 1, 3)]


async def test_an_analyzer_sees_conclusions_and_requests(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    await _analysis(agent_graph, "Growth", ghana)
    await agent_graph.iteration(1, queries=["What grows?"], missing=["figures of 2025"])
    text = await _build(agent_graph, kind=StepKind.INSIGHT)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Edge types",
        "## Analyses",
        "## Open investigation requests",
    ]
    assert (await _build(agent_graph, kind=StepKind.ADVISE)).startswith("## Analyses\n")


async def test_what_is_added_is_shown_at_the_end_of_its_section(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    before = await _build(agent_graph)
    await agent_graph.node("Togo")
    after = await _build(agent_graph)
    first_difference = next(
        place for place, (one, other) in enumerate(zip(before, after, strict=False)) if one != other
    )
    assert before[:first_difference].endswith('- Country: "Ghana"')
    assert after[first_difference:].startswith(', "Togo"')


async def test_nodes_that_a_text_names_are_found(agent_graph: AgentGraph) -> None:
    names = ("Ghana", "Bank of Ghana", "Côte d'Ivoire", "Togo")
    for name in names:
        await agent_graph.node(name, capital="Accra")
    await _analysis(agent_graph, "Growth", (await agent_graph.node("Benin")))
    text = (
        "The Bank of Ghana lent and côte d'ivoire money. Growth in Ghana; TOGO.\nNo Bank\nof Ghana."
    )
    async with agent_graph.database.transaction() as session:
        lines = await context.named_nodes(agent_graph.scope, text).execute(session)
    assert [line.split('"')[1] for line in lines.splitlines()] == [
        "Ghana",
        "Bank of Ghana",
        "Côte d'Ivoire",
        "Togo",
    ]
    assert lines.splitlines()[0] == '- Country "Ghana" {"summary": "A state.", "has": ["capital"]}'


@pytest.mark.parametrize(
    "text",
    [
        "In 2027 the tariff quota for category 3B falls.",
        "Of TQ-3B, 51,000 tonnes are left.",
        "The Quota for 3B is used up.",
        "## Tariff Quota for Category 3B\nSource: https://a.example/",
    ],
)
async def test_a_node_is_named_by_its_aliases_and_in_any_case(
    agent_graph: AgentGraph, text: str
) -> None:
    quote = "The tariff quota for category 3B, TQ-3B or quota for 3B, has 51 people in Ghana."
    page = {"url": "https://quota.example/", "title": "Tariff quota for category 3B"}
    await agent_graph.store_search_results({"results": [{**page, "content": quote}]})
    async with agent_graph.database.transaction() as session:
        await add_node(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="Country",
            name="Tariff quota for category 3B",
            properties={"summary": "A quota."},
            evidence=[EvidenceInput(page["url"], quote)],
            aliases=["TQ-3B", "quota for 3B"],
        )
        lines = await context.named_nodes(agent_graph.scope, text).execute(session)
    assert lines.startswith('- Country "Tariff quota for category 3B"')


async def test_the_budget_is_respected_and_analyses_precede_nodes(agent_graph: AgentGraph) -> None:
    nodes = [await agent_graph.node(f"Country {number}", capital="x" * 400) for number in range(60)]
    for number in range(8):
        await _analysis(agent_graph, f"Pattern {number}", nodes[number])
    text = await _build(agent_graph, token_budget=1_000)
    assert byte_length(text) <= agent_graph.scope.budget_bytes(1_000)
    assert len(_section(text, "Analyses")) == 8
    assert 0 < len(_section(text, "Newest nodes")) < 40
    long_text = await _build(agent_graph, token_budget=100_000)
    assert len(_section(long_text, "Newest nodes")) == 60
    assert "x" * 99 + "…" in long_text
    assert "x" * 240 not in long_text


async def test_the_same_graph_yields_the_same_text(agent_graph: AgentGraph) -> None:
    same_moment = datetime.now(UTC)
    nodes = [await agent_graph.node(f"Country {number}") for number in range(20)]
    for node, other in pairwise(nodes):
        await agent_graph.edge(node, other)
    for node in nodes:
        await agent_graph.touch(node, updated_at=same_moment)
    first, second = await _build(agent_graph, 2_000), await _build(agent_graph, 2_000)
    assert first == second


async def test_only_the_last_iterations_are_listed(agent_graph: AgentGraph) -> None:
    for number in range(1, 26):
        await agent_graph.iteration(
            number, queries=[f"objective {number}"], missing=[f"data {number}"]
        )
    await agent_graph.iteration(26, queries=[], missing=["Data 25"])
    text = await _build(agent_graph)
    assert _section(text, "Recently asked") == [
        f"- iteration {number}, not found: objective {number}" for number in range(6, 26)
    ], "as many as a new plan must not repeat, the newest at the end"
    requests = [line.split("] ")[1] for line in _section(text, "Open investigation requests")]
    assert requests == [
        "data 25 (lacking since iteration 25)",
        *(f"data {number} (lacking since iteration {number})" for number in range(24, 16, -1)),
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
        f'- [node:{benin}] Country "Benin" {{"summary": "A state."}}',
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
