"""What is evidence, stale, expired and due for an agent that works as if each day were its archive date."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from services.api.resources.inbox import model as notifications
from services.observer.history import PlanHistory
from services.observer.planning import resolve_plan
from services.observer.prompts import ObserverPlan, PlannedQuery
from services.observer.quiescence import situation_query
from shared.agents import feedback
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import (
    Agent,
    Evidence,
    GraphNode,
    InboxItem,
    Iteration,
    Step,
    ValidityBoundary,
)
from shared.enums import ADVICE_TYPE, InboxOutcome, StepKind, StepStatus
from shared.graph import context, elements
from shared.graph.conclusions import queries
from shared.graph.conclusions.queries import ConclusionFilter
from shared.graph.provenance.evidence import EvidenceInput
from shared.schemas.base import PageRequest
from shared.tools import ToolRefusalError
from shared.workflow import investigations
from shared.workflow.agent_clock import NOW_SQL, agent_clock
from tests.support.api.access import owner_access
from tests.support.graph.agent_graph import COUNTRY, PAGE, AgentGraph
from tests.support.table_rows import change

ARCHIVE = date(2024, 6, 1)
END = datetime.combine(ARCHIVE, time.max, UTC)
TEXT = "Ghana has 33 million people. Togo has 9 million people."
OBJECTIVE = "What is the population of Ghana"


async def archive(graph: AgentGraph, day: date | None = ARCHIVE) -> None:
    async with graph.database.transaction() as session:
        await session.execute(update(Agent).values(archive_date=day))


async def store_page(graph: AgentGraph, url: str, published: str, text: str = TEXT) -> None:
    page = {"url": url, "title": "Ghana", "content": text, "published_date": published}
    await graph.store_search_results({"results": [page]})


async def add(graph: AgentGraph, entry: EvidenceInput, population: int = 33_000_000) -> Evidence:
    async with graph.database.transaction() as session:
        added = await elements.add_node(
            session,
            graph.scope,
            graph.validators,
            type_name="Country",
            name="Ghana",
            properties={**COUNTRY, "population": population},
            evidence=(entry,),
        )
        return (await session.scalars(select(Evidence).where(Evidence.node_id == added.id))).one()


@pytest.mark.parametrize("day", [ARCHIVE, date(1999, 12, 31), date(2024, 2, 29), None])
async def test_sql_and_code_have_the_same_now(agent_graph: AgentGraph, day: date | None) -> None:
    await archive(agent_graph, day)
    statement = CompiledStatement(f"select {NOW_SQL} as now, statement_timestamp() as real")
    params = {"of_agent": agent_graph.scope.agent_id}
    [row] = await agent_graph.database.run(BoundQuery(statement, params, list))
    clock = await agent_graph.database.run(agent_clock(agent_graph.scope.agent_id))
    assert clock.archive_date == day
    assert row.now == (row.real if day is None else clock.now)


async def test_a_page_that_was_published_later_is_no_evidence(agent_graph: AgentGraph) -> None:
    """Also if it was read before the archive date was set. On its day, it is evidence."""
    later = "https://press.example/later"
    await store_page(agent_graph, later, "2024-06-02")
    await archive(agent_graph)
    with pytest.raises(
        ToolRefusalError, match="was published on 2024-06-02, after today, 2024-06-01"
    ):
        await add(agent_graph, EvidenceInput(later, TEXT))
    with pytest.raises(ToolRefusalError, match="no page was read at") as refusal:
        await add(agent_graph, EvidenceInput("https://press.example/other", TEXT))
    assert PAGE["url"] in str(refusal.value)
    assert later not in str(refusal.value)
    await archive(agent_graph, date(2024, 6, 2))
    await add(agent_graph, EvidenceInput(later, TEXT))


async def test_of_the_versions_of_a_page_those_until_the_archive_date_are_evidence(
    agent_graph: AgentGraph,
) -> None:
    url, earlier = "https://press.example/ghana", TEXT.replace("33", "32")
    await store_page(agent_graph, url, "2024-05-01", earlier)
    await store_page(agent_graph, url, "2024-07-01")
    await archive(agent_graph)
    with pytest.raises(ToolRefusalError, match="it is not in"):
        await add(agent_graph, EvidenceInput(url, TEXT))
    evidence = await add(agent_graph, EvidenceInput(url, earlier), 32_000_000)
    assert evidence.as_of == datetime(2024, 5, 1, tzinfo=UTC)


async def test_a_value_of_the_future_counts_from_its_publication(
    agent_graph: AgentGraph,
) -> None:
    """A forecast must not outweigh what is published after it."""
    url = "https://press.example/ghana"
    await store_page(agent_graph, url, "2024-05-01", "In 2025, Ghana has 33 million people.")
    await archive(agent_graph)
    forecast = EvidenceInput(
        url, "In 2025, Ghana has 33 million people.", valid_from=datetime(2025, 1, 1, tzinfo=UTC)
    )
    evidence = await add(agent_graph, forecast)
    assert evidence.as_of == datetime(2024, 5, 1, tzinfo=UTC)
    assert evidence.learned_at > END, "rows have real times"


@pytest.mark.parametrize(
    ("day", "lines"),
    [
        (None, ['- Country: 1, confirmed last 3 weeks ago: "Ghana"']),
        (7, ['- Country: 1, confirmed last 2 weeks ago: "Ghana"']),
        (20, []),
        (60, []),
    ],
)
async def test_staleness_is_counted_to_the_archive_date(
    agent_graph: AgentGraph, day: int | None, lines: list[str]
) -> None:
    """`day` is how many days ago the archive date is."""
    now = datetime.now(UTC)
    ghana = await agent_graph.node("Ghana")
    await agent_graph.touch(ghana, updated_at=now - timedelta(days=22))
    await archive(agent_graph, None if day is None else now.date() - timedelta(days=day))
    async with agent_graph.database.transaction() as session:
        text = await context.build_survey(session, agent_graph.scope, StepKind.OBSERVE)
    _, _, rest = f"\n{text}".partition("\n## Stale nodes\n")
    assert rest.partition("\n## ")[0].splitlines() == lines


async def test_the_pages_to_read_again_were_published_until_then(agent_graph: AgentGraph) -> None:
    await store_page(agent_graph, "https://press.example/later", "2024-06-02")
    await store_page(agent_graph, "https://press.example/earlier", "2024-06-01")
    await archive(agent_graph)
    async with agent_graph.database.transaction() as session:
        text = await context.build_survey(session, agent_graph.scope, StepKind.QUERY)
    assert "https://press.example/earlier" in text
    assert "https://press.example/later" not in text


async def test_what_was_learned_since_the_archive_date_is_fresh(agent_graph: AgentGraph) -> None:
    """On a day that does not pass, nothing can have changed."""
    await agent_graph.node("Ghana", population=33)
    long_ago = datetime.now(UTC) - timedelta(days=3)
    async with agent_graph.database.transaction() as session:
        await session.execute(update(Evidence).values(learned_at=long_ago))
    query = PlannedQuery(objective=OBJECTIVE, reasoning="", search_hints=[], answers=[])
    plan = ObserverPlan(queries=[query], insights=[])
    for now, repeats in ((datetime.now(UTC), 0), (END, 1)):
        past = PlanHistory((), (), {}, datetime.now(UTC), now)
        async with agent_graph.database.transaction() as session:
            resolved = await resolve_plan(session, agent_graph.scope, past, plan)
        assert len(resolved.repeats) == repeats


async def test_horizons_are_counted_from_the_archive_date(agent_graph: AgentGraph) -> None:
    await archive(agent_graph)
    with pytest.raises(ToolRefusalError, match="2024-05-31 is not in the future"):
        await agent_graph.advice("Wait.", horizon="2024-05-31")
    await agent_graph.advice_on(await agent_graph.node("Ghana"), horizon="10 days")
    async with agent_graph.database.transaction() as session:
        node = (await session.scalars(select(GraphNode).where(GraphNode.type == ADVICE_TYPE))).one()
    assert node.properties["horizon"] == "2024-06-11"
    assert node.properties["generated_at"] == "2024-06-01T23:59:59Z"
    assert node.created_at > END, "rows have real times"


@pytest.mark.parametrize(
    ("day", "expired"), [(ARCHIVE, False), (date(2024, 6, 11), False), (date(2024, 6, 12), True)]
)
async def test_a_conclusion_expires_by_the_clock_of_its_agent(
    agent_graph: AgentGraph, day: date, expired: bool
) -> None:
    await archive(agent_graph)
    await agent_graph.advice_on(await agent_graph.node("Ghana"), horizon="10 days")
    await archive(agent_graph, day)
    scope = agent_graph.scope
    async with agent_graph.database.transaction() as session:
        only = ConclusionFilter(expired=expired)
        page = await queries.list_conclusions(session, scope, ADVICE_TYPE, PageRequest(), only)
        inbox = await notifications.list_inbox_items(
            owner_access(session, scope.owner_id), PageRequest()
        )
    assert [each.expired for each in (*page.items, *inbox.items)] == [expired, expired]


@pytest.mark.parametrize(
    ("day", "due"),
    [(date(2024, 6, 6), 0), (date(2024, 6, 8), 1), (date(2024, 6, 12), 2), (None, 2)],
)
async def test_horizons_and_facts_come_due_by_the_clock_of_the_agent(
    agent_graph: AgentGraph, day: date | None, due: int
) -> None:
    """A fact ends on the 7th, a horizon on the 11th."""
    await archive(agent_graph)
    await agent_graph.advice_on(await agent_graph.node("Ghana"), horizon="10 days")
    for number in (1, 2):
        await agent_graph.iteration(number, queries=[])
    async with agent_graph.database.transaction() as session:
        ended = datetime(2024, 6, 7, tzinfo=UTC)
        [evidence] = await session.scalars(select(Evidence))
        await session.insert(
            ValidityBoundary,
            evidence_id=evidence.id,
            moment=ended,
            agent_id=evidence.agent_id,
            due_at=None,
        )
        iterations = await session.scalars(select(Iteration).order_by(Iteration.number))
        first, second = iterations.all()
        first = await change(session, first, started_at=datetime(2024, 6, 5, tzinfo=UTC))
        await session.insert(
            Step,
            id=uuid4(),
            iteration_id=first.id,
            agent_id=first.agent_id,
            kind=StepKind.OBSERVE,
            index=0,
            input={},
            status=StepStatus.COMPLETED,
            result={},
        )
    await archive(agent_graph, day)
    scope = replace(agent_graph.scope, iteration_id=second.id)
    situation = await agent_graph.database.run(situation_query(scope))
    assert len(situation.due) == due
    assert situation.now > END, "iterations start by the real time"


async def test_dates_of_feedback_are_not_later_than_the_agents_today(
    agent_graph: AgentGraph,
) -> None:
    horizon = f"{datetime.now(UTC).year + 1}-12-31"
    await agent_graph.advice_on(await agent_graph.node("Ghana"), horizon=horizon)
    await archive(agent_graph)
    async with agent_graph.database.transaction() as session:
        values = {"outcome": InboxOutcome.DISMISSED, "answered_at": datetime.now(UTC)}
        await session.execute(update(InboxItem).values(values))
        shown = await feedback.list_feedback(agent_graph.scope.agent_id).execute(session)
    assert feedback.format_lines(shown).startswith("- 2024-06-01, dismissed")


async def test_dates_of_requests_are_not_later_than_the_agents_today(
    agent_graph: AgentGraph,
) -> None:
    """A request that is not answered has no date of an answer."""
    await agent_graph.iteration(1, queries=["What grows?"], missing=["figures of 2025"])
    await archive(agent_graph)
    agent_id = agent_graph.scope.agent_id
    missing = investigations.MissingData("figures of 2025", "It is lacking.")
    request_id = investigations.request_id(agent_id, missing.objective)
    async with agent_graph.database.transaction() as session:
        step = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert step.iteration_id is not None
        request = investigations.request(agent_id, step.iteration_id, step.id, missing)
        opened = await request.execute(session)
        await investigations.mark_not_found(agent_id, {request_id: None}).execute(session)
        not_found = await request.execute(session)
    assert (opened.is_open, opened.answered_at, opened.not_found_at) == (True, None, None)
    assert (not_found.is_open, not_found.answered_at) == (False, None)
    assert not_found.not_found_at == END
    async with agent_graph.database.transaction() as session:
        text = await context.build_survey(session, agent_graph.scope, StepKind.OBSERVE)
    assert "- 2024-06-01: figures of 2025" in text
    assert "- iteration 1, not found: What grows?" in text
