"""What a phase sees of the graph: its context, the shared survey and short ids."""

import asyncio
import random
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, text

from services.api.resources.iterations import transcripts
from services.researcher.handler import written_texts
from shared.agents.contexts import StepGroup, UnreadableContextError, load_texts
from shared.database.engine import Database
from shared.database.pipelined import BoundStatement, PipelinedConnection, Result
from shared.database.statements import Batch, Executor, PendingResult
from shared.database.tables import Agent, Context, GraphNode, Interaction, Iteration, Step
from shared.database.unit_of_work import UnitOfWork
from shared.enums import Phase, StepKind, StepStatus
from shared.errors import RetrySoonError, TransientError
from shared.graph import context
from shared.graph.context import PinnedSurveys, Survey
from shared.graph.context import survey as pinned_module
from shared.graph.context.survey import NODES, PAGES_READ
from shared.graph.elements import add_node
from shared.graph.prompt_format import byte_length
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds, number_in
from shared.graph.tools import add_agent_analysis_node
from shared.graph.validation import Validators
from shared.llm.phase_run import PhaseRun
from shared.llm.phase_run_store import NewRun
from shared.llm.provider import Model
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import ToolRefusalError
from shared.workflow import investigations, iterations
from shared.workflow.investigations import Answer
from shared.workflow.iterations import IterationRow, StepRow
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.api.access import owner_access
from tests.support.claims import AGENT_ROW
from tests.support.factories import make_agent, make_iteration
from tests.support.fences import EVERYONE
from tests.support.graph.agent_graph import PAGE, AgentGraph, make_agent_graph
from tests.support.graph.descriptions import describe_analyses, describe_nodes, resolve_references
from tests.support.graph.page_evidence import said
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.tooling import call
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.sql_capture import captured_statements
from tests.support.table_rows import remove

LONG_AGO = datetime.now(UTC) - timedelta(days=22)


def today() -> date:
    return datetime.now(UTC).date()


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
        "## Analyses",
        "## Advice",
        "## Stale nodes",
        "## Newest edges",
        f"## {NODES}",
        "## Open investigation requests",
        "## Recently asked",
    ]
    assert "- Country: A Country of the world" in _section(text, "Node types")
    assert "- borders: what borders says (Country -> Country)" in _section(text, "Edge types")
    assert _section(text, NODES) == [
        '- Regulation "Old rule" {"summary": "A state."} 2024-05-01',
        '- Country "Ghana" {"summary": "A state.", "capital": "Accra"} 2024-05-01',
        '- Country "To\\"go" {"summary": "A state."} 2024-05-01',
    ], "the newest is the last one, and conclusions have sections of their own"
    assert _section(text, "Stale nodes") == [
        '- Regulation: 1, confirmed last 3 weeks ago: "Old rule"'
    ]
    assert _section(text, "Newest edges") == ['- "Ghana" -borders-> "To\\"go"']
    assert _section(text, "Analyses") == [
        f'- pattern "Growth": Growth in short. ({today()})',
        f'- pattern "Size": Size in short. ({today()})',
    ]
    assert _section(text, "Advice") == [f'- HOLD "Wait": Wait. ({today()})']
    (request,) = _section(text, "Open investigation requests")
    assert re.fullmatch(r"- \[request:[0-9a-f-]{36}\] figures of 2025 \(lacking .* 1\)", request)
    assert _section(text, "Recently asked") == ["- iteration 1, not found: What grows? Where?"]
    in_conversation = await _build(agent_graph, kind=StepKind.CONVERSE)
    assert f'- [node:{ghana}] Country "Ghana" {{' in in_conversation
    assert f'- [edge:{border}] "Ghana"' in in_conversation
    assert f'- [node:{advice}] HOLD "Wait": Wait.' in in_conversation


async def test_a_node_has_the_date_of_its_newest_page_and_its_sites(
    agent_graph: AgentGraph,
) -> None:
    ghana = await agent_graph.node("Ghana")
    later = datetime(2025, 3, 4, tzinfo=UTC)
    await said(agent_graph, "https://a.example/x", "Ghana grows.", node=ghana, at=later)
    await said(
        agent_graph,
        "https://b.example/x",
        "Ghana is.",
        node=ghana,
        at=datetime(2023, 1, 2, tzinfo=UTC),
    )
    # Another host of a site that counts already.
    at = datetime(2022, 1, 2, tzinfo=UTC)
    await said(agent_graph, "https://news.b.example/y", "Ghana!", node=ghana, at=at)
    assert _section(await _build(agent_graph), NODES) == [
        '- Country "Ghana" {"summary": "A state."} 2025-03-04, 3 sites'
    ]


async def test_values_that_changed_are_shown_with_both_dates(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    for year, people in ((2023, 29), (2024, 30), (2025, 31), (2026, 31)):
        quote = f"{people} million in {year}."
        at = datetime(year, 1, 5, tzinfo=UTC)
        await said(
            agent_graph, f"https://{year}.example/x", quote, node=ghana, at=at, population=people
        )
    assert _section(await _build(agent_graph), "Changed values") == [
        '- Country "Ghana" population: 30 (2024-01-05), now 31 (2025-01-05)'
    ]


async def test_values_that_a_reading_contradicted_are_no_changes_and_their_pages_do_not_count(
    agent_graph: AgentGraph,
) -> None:
    ghana = await agent_graph.node("Ghana")
    for year, people in ((2025, 30), (2026, 31)):
        at = datetime(year, 1, 5, tzinfo=UTC)
        quote = f"{people} million in {year}."
        url = f"https://{year}.example/x"
        await said(agent_graph, url, quote, node=ghana, at=at, population=people)
    await RetractionGraph(agent_graph).contradict(ghana, "https://2025.example/x")
    text = await _build(agent_graph)
    assert _section(text, "Changed values") == []
    assert _section(text, NODES)[0].endswith("2026-01-05, 2 sites")


async def test_known_facts_are_those_of_nodes_that_a_query_names(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana", capital="Accra")
    await agent_graph.node("Togo")
    async with agent_graph.database.transaction() as session:
        known = context.known_facts(agent_graph.scope, "Find the population of Ghana")
        lines = await known.execute(session)
    assert lines == '- Country "Ghana" {"summary": "A state.", "capital": "Accra"}'


async def test_known_nodes_are_found_by_alias_and_by_short_forms(agent_graph: AgentGraph) -> None:
    """By the beginning of a name, by its end, and by its initials; what is named in full comes first."""
    names = ["Cocoa of Assini", "Lake Orran", "State Concession Board", "Ghana", "Togo"]
    content = f"All of {', '.join(names)} and the Gold Coast, which is Ghana, are states."
    page = {"url": "https://names.example/", "title": "Names", "content": content}
    await agent_graph.store_search_results({"results": [page]})
    quoted = [EvidenceInput(page["url"], content)]
    for name in names:
        aliases = ["Gold Coast"] if name == "Ghana" else []
        await agent_graph.add_node(name, {"summary": "A state."}, quoted, aliases=aliases)

    async def found(text: str) -> list[str]:
        async with agent_graph.database.transaction() as session:
            facts = await context.known_facts(agent_graph.scope, text).execute(session)
            nodes = await context.named_nodes(agent_graph.scope, text).execute(session)
        names = [[line.split('"')[1] for line in lines.splitlines()] for lines in (facts, nodes)]
        assert names[0] == names[1]
        return names[0]

    assert await found("What the Gold Coast earns") == ["Ghana"]
    assert await found("Who digs at Assini, and in Togo") == ["Togo", "Cocoa of Assini"]
    assert await found("Depth of Orran's water in the Lake") == ["Lake Orran"]
    assert await found("Cocoa prices") == ["Cocoa of Assini"]
    assert await found("What the SCB decides") == ["State Concession Board"]
    assert await found("The orran, the lake and cocoa") == []


async def test_known_nodes_are_joined_ones_whose_names_a_text_has_most_of(
    agent_graph: AgentGraph,
) -> None:
    names = ["Norvia Ferries", "Accounts for June 2026", "Accounts for May 2025", "Port of Tema"]
    nodes = await agent_graph.unproven_nodes(names)
    await agent_graph.unproven_edges([(nodes[0], node) for node in nodes[1:]])
    text = "Norvia Ferries corrects its accounts of June 2026. The tender is open."
    async with agent_graph.database.transaction() as session:
        lines = await context.named_nodes(agent_graph.scope, text).execute(session)
    assert [line.split('"')[1] for line in lines.splitlines()] == names[:2], (
        "the others have another year, or too few of the words"
    )


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
    assert shown[0].endswith(" (2024-05-01, atlas.example)")
    other = replace(scope, iteration_id=uuid4())
    assert await agent_graph.database.run(context.written_lines(other)) == ""


async def _querying(agent_graph: AgentGraph) -> tuple[AgentGraph, GraphScope]:
    """The graph as a query of a new iteration writes to it, and the scope of that."""
    iteration, query = uuid4(), uuid4()
    of_agent = {"agent_id": agent_graph.scope.agent_id}
    async with agent_graph.database.transaction() as session:
        await session.insert(
            Iteration, id=iteration, number=1, why="due", deadline_at=LONG_AGO, **of_agent
        )
        values = {"id": query, "iteration_id": iteration, "kind": StepKind.QUERY, "index": 0}
        await session.insert(Step, **values, **of_agent, status=StepStatus.COMPLETED)
    scope = replace(agent_graph.scope, iteration_id=iteration, step_id=query)
    return replace(agent_graph, scope=scope), scope


async def test_an_analyzer_is_shown_all_that_was_written_and_nothing_that_was_superseded(
    agent_graph: AgentGraph,
) -> None:
    of_query, scope = await _querying(agent_graph)
    for number in range(22):
        await of_query.node(f"Country {number}", capital="x" * 100)
    await of_query.node("Ghana", population=3)
    await of_query.node("Ghana", population=4)
    lines = (await agent_graph.database.run(context.written_lines(scope))).splitlines()
    assert len(lines) == 23
    [ghana] = [line for line in lines if '"Ghana"' in line]
    assert '"population": 4' in ghana
    assert '"population": 3' not in ghana


async def test_what_was_written_stands_once_and_the_newest_last(agent_graph: AgentGraph) -> None:
    """A value that two pages give stands once, with both dates; without room, the oldest elements have their names alone."""
    of_query, scope = await _querying(agent_graph)
    names = [f"Country {number}" for number in range(60)]
    for name in names:
        await of_query.node(name)
    urls = ["https://atlas.example/states", "https://other.example/states"]
    await of_query.store_search_results(*({"results": [{**PAGE, "url": url}]} for url in urls))
    await of_query.node("Mali", population=3)
    for url in urls:
        ghana_says = {"summary": "A state.", "population": 4}
        await of_query.add_node("Ghana", ghana_says, [EvidenceInput(url, PAGE["content"])])
    lines = (await agent_graph.database.run(context.written_lines(scope))).splitlines()
    assert [line.split('"')[1] for line in lines] == [*names, "Mali", "Ghana"]
    assert '"population": 3' in lines[-2]
    assert lines[-1].endswith(
        '"Ghana" {"summary": "A state.", "population": 4} (2024-05-01, atlas.example; 2024-05-01, other.example)'
    )
    bare = [line for line in lines if "{" not in line]
    assert 0 < len(bare) < len(names)
    assert bare == lines[: len(bare)]


async def test_the_adviser_is_shown_earlier_analyses_with_their_ids(
    agent_graph: AgentGraph,
) -> None:
    analysis = await _analysis(agent_graph, "Growth", await agent_graph.node("Ghana"))
    text = await _build(agent_graph, kind=StepKind.ADVISE)
    assert _section(text, "Analyses") == [
        f'- [node:{analysis}] pattern "Growth": Growth in short. ({today()})'
    ]


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
        f'- [node:{earlier}] pattern "Growth": Growth in short. ({today()})'
    ]


async def test_a_node_is_stale_however_fresh_its_type_is(agent_graph: AgentGraph) -> None:
    old = await agent_graph.node("Ghana")
    await agent_graph.touch(old, updated_at=LONG_AGO)
    await agent_graph.node("Togo")
    assert _section(await _build(agent_graph), "Stale nodes") == [
        '- Country: 1, confirmed last 3 weeks ago: "Ghana"'
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
        f"## {PAGES_READ}",
    ]
    [country] = [line for line in _section(text, "Node types") if line.startswith("- Country: ")]
    assert country.endswith(" (capital: string, summary*: string, population: integer)")
    assert context.pages_read(text).splitlines() == [
        f"## {PAGES_READ}",
        *_section(text, PAGES_READ),
    ]
    assert context.pages_read("The graph is empty.") == ""


async def test_the_pages_that_were_read_last_come_first(agent_graph: AgentGraph) -> None:
    for number in (3, 1, 2):
        page = {"url": f"https://page.example/{number}", "content": f"{number} people."}
        await agent_graph.store_search_results({"results": [page]})
    pages = _section(await _build(agent_graph, kind=StepKind.QUERY), PAGES_READ)
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
    assert after.startswith(before)
    assert after.removeprefix(before).startswith('\n- Country "Togo"')


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
    names = [f"Country {number}" for number in range(60)]
    nodes = await agent_graph.unproven_nodes(names, capital="x" * 400)
    for number in range(8):
        await _analysis(agent_graph, f"Pattern {number}", nodes[number])
    text = await _build(agent_graph, token_budget=1_000)
    assert byte_length(text) <= agent_graph.scope.budget_bytes(1_000)
    assert len(_section(text, "Analyses")) == 8
    assert 0 < len(_section(text, NODES)) < 40
    long_text = await _build(agent_graph, token_budget=100_000)
    assert len(_section(long_text, NODES)) == 60
    assert "x" * 99 + "…" in long_text
    assert "x" * 240 not in long_text


async def test_the_same_graph_yields_the_same_text(agent_graph: AgentGraph) -> None:
    same_moment = datetime.now(UTC)
    nodes = await agent_graph.unproven_nodes([f"Country {number}" for number in range(20)])
    await agent_graph.unproven_edges([*pairwise(nodes)])
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
    behind = " (2024-05-01, atlas.example)"
    assert text.splitlines() == [
        f'- [node:{togo}] Country "Togo" {{"summary": "A state."}}{behind}',
        f'- [node:{ghana}] Country "Ghana" {{"capital": "{"a" * 500}", "summary": "A state."}}{behind}',
        f'- [edge:{far}] "Togo" -borders-> "Benin" {{}}{behind}',
        f'- [edge:{near}] "Ghana" -borders-> "Togo" {{}}{behind}',
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
        f'"content": "See [node:{ghana}].", "confidence": 0.5}} ({today()})'
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


PHASES = {
    StepKind.QUERY: Phase.KNOWLEDGE_ACQUISITION,
    StepKind.INSIGHT: Phase.ANALYSIS_GENERATION,
}


@dataclass
class CountingBuilder:
    """Builds surveys with distinct texts, and counts them."""

    built: int = 0
    fails: int = 0
    """Number of the first builds that fail."""
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(
        self, batch: Batch, scope: GraphScope, kind: StepKind, *, token_budget: int
    ) -> PendingResult[str]:
        self.built += 1
        text = f"survey {self.built}"
        return batch.then(lambda: text)


@dataclass
class GatedExecutor:
    """Executes the statements of surveys when the builder allows it."""

    builder: CountingBuilder
    connection: PipelinedConnection

    async def run_together(self, statements: Sequence[BoundStatement]) -> list[Result]:
        self.builder.has_begun.set()
        await self.builder.may_end.wait()
        if self.builder.built <= self.builder.fails:
            raise TransientError("PostgreSQL is away")
        return await self.connection.run_together(statements)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> CountingBuilder:
    builder = CountingBuilder()
    builder.may_end.set()
    monkeypatch.setattr(pinned_module, "prepare_survey", builder)
    return builder


@dataclass
class Plan:
    database: Database
    model: Model
    agent: Agent
    iteration: IterationRow
    steps: Mapping[tuple[str, int], StepRow]

    @property
    def queries(self) -> Sequence[StepRow]:
        return [step for (kind, _), step in sorted(self.steps.items()) if kind == StepKind.QUERY]

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self.agent.owner_id, self.agent.id, self.iteration.id)

    async def load(
        self, surveys: PinnedSurveys, step: StepRow, database: Database | None = None
    ) -> Survey:
        """Load the step's survey; each database object stands for a process."""
        database = database or self.database
        async with database.connection() as connection:
            return await self._load(surveys, step, database, connection)

    async def load_together(
        self,
        builder: CountingBuilder,
        surveys: PinnedSurveys,
        steps: Sequence[StepRow],
        cancelled: Collection[int] = (),
    ) -> Sequence[Survey | BaseException]:
        """Load the surveys of steps that all wait for the first one; the tasks at `cancelled` are cancelled then."""
        builder.may_end.clear()
        async with AsyncExitStack() as stack:
            tasks = []
            for step in steps:
                connection = await stack.enter_async_context(self.database.connection())
                executor = GatedExecutor(builder, connection)
                tasks.append(self._load(surveys, step, self.database, executor))
            running = [asyncio.create_task(task) for task in tasks]
            await builder.has_begun.wait()
            for place in cancelled:
                running[place].cancel()
            builder.may_end.set()
            return await asyncio.gather(*running, return_exceptions=True)

    async def _load(
        self,
        surveys: PinnedSurveys,
        step: StepRow,
        database: Database,
        executor: Executor,
    ) -> Survey:
        scope = replace(self.scope, step_id=step.id)
        return await surveys.load(
            database, executor, scope, step, Batch(), token_budget=1_000, is_first=True
        )

    async def start_run(
        self, surveys: PinnedSurveys, step: StepRow, database: Database | None = None
    ) -> str:
        """Return the step's survey, and store it with its run's first request."""
        survey = await self.load(surveys, step, database)
        await self.begin(step, survey)
        return survey.text

    async def begin(self, step: StepRow, survey: Survey) -> None:
        message = f"Before {survey.text} after"
        await self.run(step, message, survey.text, pinned_for=survey.pinned_for).begin()

    def run(
        self,
        step: StepRow,
        message: str,
        survey: str,
        phase: Phase | None = None,
        pinned_for: StepGroup | None = None,
    ) -> PhaseRun:
        phase = phase or PHASES[StepKind(step.kind)]
        lease = Lease(
            step.id,
            step.iteration_id,
            step.agent_id,
            self.agent.owner_id,
            1,
            "test",
            60,
            AGENT_ROW,
        )
        return PhaseRun(
            self.model, lease, self.agent, phase, message, context=survey, pinned_for=pinned_for
        )

    async def stored_surveys(self) -> Sequence[str]:
        async with self.database.transaction() as session:
            rows = await session.execute(select(Context.agent_id, Context.sha256))
            keys = [(row.agent_id, row.sha256) for row in rows]
            return sorted((await load_texts(session, keys)).values())


@pytest.fixture
async def plan(database: Database, sandbox_settings: Settings) -> Plan:
    agent = await make_agent(database)
    result = await make_iteration(database, agent)
    step_input: dict[str, Any] = {"objective": "x"}
    async with database.transaction() as session:
        await iterations.plan_steps(
            result.iteration,
            queries=[step_input, step_input, step_input, step_input | {"round": 1}],
            insights=[step_input],
        ).execute(session)
        await session.execute(text("update steps set status = 'pending' where status = 'planned'"))
        ids = list(await session.scalars(select(Step.id).where(Step.kind != StepKind.OBSERVE)))
    steps = {}
    for step_id in ids:
        async with database.transaction() as session:
            claim = await claims.claimed(session, step_id, "test", seconds=600)
        steps[claim.step.kind, claim.step.index] = claim.step
    return Plan(database, create_model(sandbox_settings, database), agent, result.iteration, steps)


async def test_steps_that_start_together_share_one_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    steps = plan.queries[:3]
    for step, survey in zip(
        steps, await plan.load_together(builder, PinnedSurveys(), steps), strict=True
    ):
        assert isinstance(survey, Survey)
        assert survey.text == "survey 1"
        await plan.begin(step, survey)
    assert (builder.built, await plan.stored_surveys()) == (1, ["survey 1"])


async def test_a_later_step_is_given_the_pinned_survey_whatever_has_changed(
    plan: Plan, builder: CountingBuilder, database_url: str
) -> None:
    first, second, third, _ = plan.queries
    await plan.start_run(PinnedSurveys(), first)
    graph = AgentGraph(plan.database, plan.scope, Validators())
    await graph.store_search_results()
    await graph.node_type("Country")
    await graph.node("Togo")
    assert await plan.start_run(PinnedSurveys(), second) == "survey 1"
    other_process = Database(database_url, name="another process")
    try:
        assert await plan.start_run(PinnedSurveys(), third, other_process) == "survey 1"
    finally:
        await other_process.close()
    assert await plan.stored_surveys() == ["survey 1"]


async def test_of_two_surveys_that_are_built_at_once_one_is_pinned(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, *_ = plan.queries
    surveys = [await plan.load(PinnedSurveys(), step) for step in (first, second)]
    assert [survey.text for survey in surveys] == ["survey 1", "survey 2"]
    await plan.begin(first, surveys[0])
    with pytest.raises(RetrySoonError, match="pinned a different context"):
        await plan.begin(second, surveys[1])
    assert await plan.stored_surveys() == ["survey 1"]
    assert await plan.start_run(PinnedSurveys(), second) == "survey 1"


async def test_a_pipelined_run_is_not_committed_with_a_survey_that_is_not_pinned(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, *_ = plan.queries
    surveys = [await plan.load(PinnedSurveys(), step) for step in (first, second)]
    await plan.begin(first, surveys[0])
    lease = Lease(
        second.id, second.iteration_id, second.agent_id, plan.agent.owner_id, 1, "t", 60, AGENT_ROW
    )
    run = NewRun(
        plan.database,
        lease,
        Phase.KNOWLEDGE_ACQUISITION,
        model="m",
        system_prompt="",
        request={"messages": [{"role": "user", "content": "x"}], "tools": []},
        context=surveys[1].text,
        pinned_for=surveys[1].pinned_for,
    )
    unit = UnitOfWork(plan.database, EVERYONE)
    run.write_with(unit)
    with pytest.raises(RetrySoonError, match="pinned a different context"):
        await unit.commit()
    assert await plan.stored_surveys() == ["survey 1"]
    async with plan.database.transaction() as session:
        steps = list(await session.scalars(select(Interaction.step_id)))
    assert steps == [first.id]


async def test_a_pinned_survey_is_read_from_the_last_one_that_the_process_remembers(
    plan: Plan, builder: CountingBuilder, database_url: str
) -> None:
    first, *_, later = plan.queries
    insight = plan.steps[StepKind.INSIGHT, 0]
    texts = [await plan.start_run(PinnedSurveys(), step) for step in (first, later, insight)]
    assert texts == ["survey 1", "survey 2", "survey 3"]
    steps = (first, later, insight)
    expected = {step.id: text for step, text in zip(steps, texts, strict=True)}
    for order in ((later, insight, first, first), (first, later, later, insight)):
        process = Database(database_url, name="another process")
        try:
            read = [(await plan.load(PinnedSurveys(), step, process)).text for step in order]
        finally:
            await process.close()
        assert read == [expected[step.id] for step in order]


async def test_a_missing_text_of_a_pin_is_reported(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(PinnedSurveys(), plan.queries[0])
    async with plan.database.transaction() as session:
        await session.execute(delete(Context))
    with pytest.raises(UnreadableContextError):
        await plan.load(PinnedSurveys(), plan.queries[1])


async def test_another_kind_and_another_round_have_their_own_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    surveys = PinnedSurveys()
    first, *_, later = plan.queries
    steps = [first, later, plan.steps[StepKind.INSIGHT, 0]]
    assert len(set(await asyncio.gather(*[plan.start_run(surveys, step) for step in steps]))) == 3
    assert builder.built == 3


async def test_another_owner_does_not_get_the_survey(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(PinnedSurveys(), plan.queries[0])
    other = await make_agent_graph(plan.database, "other")
    scope = replace(plan.scope, owner_id=other.scope.owner_id)
    async with plan.database.connection() as connection:
        survey = await PinnedSurveys().load(
            plan.database,
            connection,
            scope,
            plan.queries[1],
            Batch(),
            token_budget=1_000,
            is_first=True,
        )
    assert survey.text == "survey 2"


async def test_after_a_failure_the_next_step_builds_the_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    builder.fails = 1
    surveys = PinnedSurveys()
    failed, *others = await plan.load_together(builder, surveys, plan.queries[:3])
    assert isinstance(failed, TransientError)
    assert [survey.text for survey in others if isinstance(survey, Survey)] == ["survey 2"] * 2


async def test_a_cancelled_step_does_not_cancel_the_survey_for_others(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, third = await plan.load_together(
        builder, PinnedSurveys(), plan.queries[:3], cancelled=[1]
    )
    assert isinstance(second, asyncio.CancelledError)
    assert first == third
    assert isinstance(first, Survey)
    assert first.text == "survey 1"


async def test_a_resumed_run_sees_the_same_survey(plan: Plan, builder: CountingBuilder) -> None:
    step = plan.queries[0]
    survey = (await plan.load(PinnedSurveys(), step)).text
    first = await plan.run(step, f"Before {survey} after", survey).begin()
    resumed_run = plan.run(step, "Before another survey after", "another survey")
    resumed = await resumed_run.begin()
    assert resumed.call.hash == first.call.hash
    assert resumed.messages[1]["content"] == "Before survey 1 after"
    assert resumed_run.first_message == "Before survey 1 after"
    assert await plan.stored_surveys() == ["survey 1"], "an unused survey is not stored"


async def test_a_run_with_an_inline_survey_is_resumed_too(plan: Plan) -> None:
    """Runs started before surveys were stored separately have this form."""
    step = plan.queries[0]
    first = await plan.run(step, "Before survey 1 after", "").begin()
    resumed = await plan.run(step, "Before survey 2 after", "survey 2").begin()
    assert resumed.call.hash == first.call.hash
    assert await plan.stored_surveys() == []


async def test_transcripts_contain_the_survey(plan: Plan, builder: CountingBuilder) -> None:
    query, old = plan.queries[:2]
    survey = await plan.start_run(PinnedSurveys(), query)
    await plan.run(query, f"Then {survey}", survey, Phase.GRAPH_CONSTRUCTION).begin()
    await plan.run(old, "As it was", "").begin()
    async with plan.database.transaction() as session:
        stored = await session.scalars(select(Interaction.request).order_by(Interaction.created_at))
        assert ["survey 1" in str(request) for request in stored] == [False, False, False]
        steps = sorted(plan.steps.values(), key=lambda step: step.index)
        iteration_runs = await transcripts.list_interactions(
            session, "iteration_id", plan.iteration.id, [step.id for step in steps]
        )
        step_runs = await transcripts.list_interactions(session, "step_id", query.id)
        single_runs = [
            await transcripts.find_phase_run(owner_access(session, plan.agent.owner_id), run.id)
            for run in iteration_runs
        ]
    contents = [run.request["messages"][0]["content"] for run in iteration_runs]
    assert contents == ["Before survey 1 after", "As it was", "Then survey 1"]
    assert [run.request for run in single_runs] == [run.request for run in iteration_runs]
    assert [run.request for run in step_runs] == [
        iteration_runs[0].request,
        iteration_runs[2].request,
    ]


async def test_surveys_are_deleted_with_their_agent(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(PinnedSurveys(), plan.queries[0])
    async with plan.database.transaction() as session:
        await remove(session, await session.get_one(Agent, plan.agent.id))
    async with plan.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Context)) == 0


async def test_a_survey_of_the_real_graph_is_stored_once(plan: Plan) -> None:
    surveys = PinnedSurveys()
    texts = [await plan.start_run(surveys, step) for step in plan.queries[:3]]
    assert set(texts) == set(await plan.stored_surveys())
    assert len(set(texts)) == 1
    assert texts[0] == "The graph is empty."


async def shown(agent_graph: AgentGraph, *texts: str) -> ShortIds:
    """The short ids of a run that shows these texts."""
    ids = ShortIds(agent_graph.scope)
    async with agent_graph.database.transaction() as session:
        await ids.store_numbers(session, texts)
    return ids


async def test_nodes_and_edges_are_numbered_once_and_for_all_runs(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    foreign, unknown = await stranger.node("Mali"), uuid4()
    text = (
        f'- [node:{togo}] Country "Togo"\n- [edge:{border}] {{"id": "{ghana}"}} {foreign} {unknown}'
    )
    first = await shown(agent_graph, text)
    assert (
        first.shorten(text) == f'- [n1] Country "Togo"\n- [e2] {{"id": "n3"}} {foreign} {unknown}'
    )
    second = await shown(agent_graph, f"[node:{ghana}] [node:{togo}]")
    assert second.shorten(f"[node:{ghana}] [node:{togo}]") == "[n3] [n1]"
    benin = await agent_graph.node("Benin")
    assert (await shown(agent_graph, str(benin))).shorten(str(benin)) == "n4"
    assert (await shown(stranger, str(foreign))).shorten(str(foreign)) == "n1"


async def test_short_ids_are_expanded_where_they_are_cited(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    ids = await shown(agent_graph, f"{ghana} {togo} {border}")
    assert ids.expand("It grows [n1], as [node:n2] does [ n1 , e3 ].") == (
        f"It grows [node:{ghana}], as [node:{togo}] does [node:{ghana}] [edge:{border}]."
    )
    untouched = f"n1 alone, an N95 mask, [1] and [node:{ghana}]"
    assert ids.expand(untouched) == untouched
    assert ids.expand("[n1, n9] and [e1]") == (
        f"[node:{ghana}] [node:00000000-0000-0000-0000-000000000009]"
        " and [edge:00000000-0000-0000-0000-000000000001]"
    )
    assert [
        ids.find(each) for each in ("n2", "[n2]", "[node:n2]", f"[node:{togo}]", str(togo))
    ] == [togo] * 5
    assert [ids.find(each) for each in ("n9", "e2", "Togo", "")] == [None] * 4
    assert [number_in(each) for each in ("n12", "[e3]", "Togo", "n1 n2")] == [12, 3, None, None]


async def test_an_id_that_was_not_shown_is_refused(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    ids = await shown(agent_graph, str(ghana))
    tool = add_agent_analysis_node(agent_graph.scope, ids)
    arguments = {"name": "Growth", "type": "pattern", "summary": "It grows.", "confidence": 0.5}
    with pytest.raises(ToolRefusalError, match=r"content: \[n7\] is not an id that you were given"):
        await call(agent_graph, tool, **arguments, content="It grows [n1], as others do [n7].")
    written = await call(agent_graph, tool, **arguments, content="It grows [n1].")
    async with agent_graph.database.transaction() as session:
        analysis = await session.get_one(GraphNode, UUID(written["nodeId"]))
    assert analysis.properties["content"] == f"It grows [node:{ghana}]."


async def test_a_resumed_run_knows_what_it_has_shown(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    message = (await shown(agent_graph, f"{ghana} {togo}")).shorten(f"[node:{ghana}] and n99")
    resumed = ShortIds(agent_graph.scope)
    async with agent_graph.database.transaction() as session:
        await resumed.load(session, [message])
    missing = UUID("00000000-0000-0000-0000-000000000002")
    assert resumed.expand("[n1] [n2]") == f"[node:{ghana}] [node:{missing}]"


async def test_relevant_nodes_come_with_earlier_values(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    for year, people in ((2025, 30), (2026, 31)):
        at = datetime(year, 1, 5, tzinfo=UTC)
        quote = f"{people} million."
        await said(
            agent_graph, f"https://{year}.example/x", quote, node=ghana, at=at, population=people
        )
    async with agent_graph.database.transaction() as session:
        text = await describe_nodes(session, agent_graph.scope, [ghana])
    assert text.endswith(
        "(2026-01-05, 2025.example, 2026.example, atlas.example) population was 30 (2025-01-05)"
    )


async def test_analyses_that_do_not_fit_are_given_by_their_names(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    ids = [
        await agent_graph.analysis(f"{'It grows. ' * 400}[node:{ghana}].", f"Growth {number}")
        for number in range(6)
    ]
    async with agent_graph.database.transaction() as session:
        text = await context.analyses_query(agent_graph.scope, ids).execute(session)
    lines = text.splitlines()
    assert len(lines) == len(ids)
    assert "It grows." in lines[0]
    assert "It grows." not in lines[-1]
    for place, analysis_id in enumerate(ids):
        assert f'[node:{analysis_id}] AgentAnalysis "Growth {place}"' in text


async def test_relevant_nodes_are_numbered_with_the_statements_that_load_their_edges(
    agent_graph: AgentGraph,
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    mali = await agent_graph.node("Mali")
    border = await agent_graph.edge(ghana, togo)
    ids = ShortIds(agent_graph.scope)
    batch = Batch()
    describe = context.prepare_nodes(batch, agent_graph.scope, [ghana], ids)
    written = f"[node:{mali}]"
    async with agent_graph.database.transaction() as session:
        await batch.execute(session)
        lines = await describe(session, [written])
        with captured_statements() as statements:
            await ids.store_numbers(session, [written, lines])
    assert statements == []
    assert ids.shorten(f"{mali} {ghana} {border} {togo}") == "n1 n2 e3 n4"
    assert str(togo) in lines


WALKS = 3


async def test_concurrent_runs_agree(agent_graph: AgentGraph) -> None:
    first = first_seed()
    for place in range(seed_count() or WALKS):
        nodes = [await agent_graph.node(f"Country {12 * place + each}") for each in range(12)]
        with repeatable(first + place):
            await walk(agent_graph, nodes, random.Random(first + place))


async def walk(agent_graph: AgentGraph, nodes: Sequence[UUID], chance: random.Random) -> None:
    """Runs number random elements at the same time, and some of them fail before they commit."""

    async def run(chosen: list[UUID], *, fails: bool) -> dict[UUID, str]:
        ids = ShortIds(agent_graph.scope)
        async with agent_graph.database.transaction() as session:
            await ids.store_numbers(session, map(str, chosen))
            if fails:
                await session.rollback()
                return {}
        return {node: ids.shorten(str(node)) for node in chosen}

    known: dict[UUID, str] = {}
    for _ in range(6):
        runs = [
            run(chance.sample(nodes, chance.randint(1, 6)), fails=chance.random() < 0.3)
            for _ in range(5)
        ]
        for numbered in await asyncio.gather(*runs):
            for node, short in numbered.items():
                assert number_in(short), f"{short} is no short id"
                assert known.setdefault(node, short) == short
    assert len(set(known.values())) == len(known)


async def test_an_element_has_its_name_values_and_quotes(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana", capital="Accra"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    texts = await agent_graph.database.run(
        written_texts(agent_graph.scope, uuid4(), [ghana, border])
    )
    assert set(texts) == {ghana, border}
    for words in ("Ghana", "capital: ", "Accra", PAGE["content"]):
        assert words in texts[ghana]
    for words in ("Ghana", "Togo", "borders", PAGE["content"]):
        assert words in texts[border]
