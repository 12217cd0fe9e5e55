"""Of contradicting claims the latest wins, in any order of arrival, and none is lost."""

import asyncio
from datetime import UTC, datetime
from itertools import permutations

import pytest
from sqlalchemy import func, select, update

from services.api.resources.sources.model import list_evidence, load_agreement
from shared.database.tables import Evidence, GraphNode, Source
from shared.graph.projection import NODES, reproject
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput, VerifiedQuote
from shared.graph.retrieval.query import load_elements
from shared.graph.upsert import UpsertResult
from shared.schemas.base import PageRequest
from tests.support.api.access import agent_access
from tests.support.canonical_graph import graph_fingerprint
from tests.support.graph.agent_graph import COUNTRY, AgentGraph, make_agent_graph
from tests.support.graph.concurrent_writes import retried
from tests.support.graph.verification import breaks
from tests.support.marks import slow

YEARS = (2022, 2023, 2024)
WRITERS = 12
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)


def url(year: int) -> str:
    return f"https://press.example/{year}"


def evidence_input(year: int, valid_from: datetime | None = None) -> EvidenceInput:
    quote = f"In {year} there were {year - 2000} people in Ghana."
    return EvidenceInput(url(year), quote, valid_from=valid_from)


async def store_all_pages(agent_graph: AgentGraph) -> AgentGraph:
    """Store a page of each year, all fetched at once."""
    pages = [
        {
            "url": url(year),
            "title": "People from 2022 to 2999",
            "content": evidence_input(year).quote,
            "published_date": f"{year}-06-30",
        }
        for year in YEARS
    ]
    await agent_graph.store_search_results({"results": pages})
    return agent_graph


@pytest.fixture
async def census(agent_graph: AgentGraph) -> AgentGraph:
    return await store_all_pages(agent_graph)


@retried
async def write_population(
    agent_graph: AgentGraph, year: int, valid_from: datetime | None = None
) -> UpsertResult:
    """Write Ghana's population from the page of `year`."""
    properties = {**COUNTRY, "population": year - 2000}
    return await agent_graph.add_node("Ghana", properties, [evidence_input(year, valid_from)])


async def load_node(agent_graph: AgentGraph, result: UpsertResult) -> GraphNode:
    async with agent_graph.database.transaction() as session:
        return await session.get_one(GraphNode, result.id)


async def current_value(
    agent_graph: AgentGraph, result: UpsertResult
) -> tuple[int, datetime | None]:
    """The population, and the date of the evidence that it follows from."""
    async with agent_graph.database.transaction() as session:
        node = await session.get_one(GraphNode, result.id)
        listed = await list_evidence(
            agent_access(session, agent_graph.scope), NODES, result.id, PageRequest()
        )
    [as_of] = [
        evidence.as_of
        for evidence in listed.items
        for claim in evidence.claims
        if claim.property == "population" and claim.holds
    ]
    return node.properties["population"], as_of


async def test_a_newer_value_supersedes_and_reports_the_previous_one(census: AgentGraph) -> None:
    first = await write_population(census, 2022)
    assert first.tool_answer == {"created": True}
    newer = await write_population(census, 2024)
    previous = {"population": {"held": 22, "asOf": "2022-06-30T00:00:00Z"}}
    assert newer.tool_answer == {"created": False, "superseded": previous}
    assert (await load_node(census, newer)).properties["population"] == 24


async def write_undated(
    agent_graph: AgentGraph, year: int, page: str, valid_from: datetime | None = None
) -> UpsertResult:
    """Write Ghana's population from a page without a date, which has the sentence about `year`."""
    quote = evidence_input(year).quote
    result = {"url": f"https://{page}.example/", "title": "From 2022 to 2999", "content": quote}
    await agent_graph.store_search_results({"results": [result]})
    evidence = [EvidenceInput(f"https://{page}.example/", quote, valid_from=valid_from)]
    return await agent_graph.add_node("Ghana", {**COUNTRY, "population": year - 2000}, evidence)


async def test_a_page_without_a_date_stands_beside_a_dated_one(census: AgentGraph) -> None:
    await write_population(census, 2022)
    undated = await write_undated(census, 2023, "archive")
    current = {"population": {"held": 22, "asOf": "2022-06-30T00:00:00Z"}}
    assert undated.tool_answer == {"created": False, "kept": current}
    assert (await load_node(census, undated)).properties["population"] == 22
    async with census.database.transaction() as session:
        listed = await list_evidence(
            agent_access(session, census.scope), NODES, undated.id, PageRequest()
        )
        agreement = await load_agreement(agent_access(session, census.scope), NODES, undated.id)
        assert await breaks(session, census.scope) == []
    assert [each.as_of for each in listed.items].count(None) == 1
    assert [(other.value, other.as_of) for other in agreement["population"].others] == [(23, None)]


@pytest.mark.parametrize(
    ("valid_from", "counts"),
    [
        (datetime(2023, 1, 1, tzinfo=UTC), True),
        (datetime(2023, 11, 28, tzinfo=UTC), False),
        (datetime(2026, 1, 1, tzinfo=UTC), False),
    ],
    ids=str,
)
async def test_a_date_that_a_page_does_not_state_supersedes_nothing(
    census: AgentGraph, valid_from: datetime, counts: bool
) -> None:
    """The model states it of a page without a date, and of one that was published before it."""
    await write_population(census, 2022)
    undated = await write_undated(census, 2023, "archive", valid_from)
    assert await current_value(census, undated) == (
        (23, valid_from) if counts else (22, datetime(2022, 6, 30, tzinfo=UTC))
    )
    await write_population(census, 2024)
    late = await write_population(census, 2023, valid_from)
    assert await current_value(census, late) == (24, datetime(2024, 6, 30, tzinfo=UTC))
    async with census.database.transaction() as session:
        listed = await list_evidence(
            agent_access(session, census.scope), NODES, undated.id, PageRequest()
        )
        assert await breaks(session, census.scope) == []
    stated = {each.valid_from for each in listed.items}
    assert (valid_from in stated) == counts


async def test_of_pages_without_a_date_only_the_first_replaces_its_own_value(
    census: AgentGraph,
) -> None:
    first = await write_undated(census, 2022, "archive")
    other = await write_undated(census, 2023, "mirror")
    assert other.tool_answer["kept"] == {"population": {"held": 22, "asOf": None}}
    own = await write_undated(census, 2024, "archive")
    assert own.tool_answer["superseded"] == {"population": {"held": 22, "asOf": None}}
    assert (await load_node(census, first)).properties["population"] == 24
    dated = await write_population(census, 2022)
    assert (await load_node(census, dated)).properties["population"] == 22
    async with census.database.transaction() as session:
        nodes, _ = await load_elements(session, census.scope, [first.id], [])
        assert await breaks(session, census.scope) == []
    assert nodes[0]["asOf"] == "2022-06-30T00:00:00Z"


async def test_a_page_without_a_date_replaces_its_value_that_an_older_version_has_stored(
    census: AgentGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_of(quote: VerifiedQuote) -> datetime:
        return quote.valid_from or quote.page.published or quote.page.fetched_at

    with monkeypatch.context() as older:
        older.setattr(VerifiedQuote, "as_of", property(as_of))
        await write_undated(census, 2022, "archive")
    other = await write_undated(census, 2023, "mirror")
    assert (await load_node(census, other)).properties["population"] == 22
    own = await write_undated(census, 2024, "archive")
    assert own.tool_answer["superseded"]["population"]["held"] == 22
    assert (await load_node(census, own)).properties["population"] == 24
    async with census.database.transaction() as session:
        assert await breaks(session, census.scope) == []
        agreement = await load_agreement(agent_access(session, census.scope), NODES, own.id)
    assert agreement["population"].sites == ["archive.example"]


@pytest.mark.parametrize(
    "order", [(2024, 2023, 2022), *slow(*((each,) for each in permutations(YEARS)))]
)
async def test_the_order_of_arrival_does_not_matter(
    census: AgentGraph, stranger: AgentGraph, order: tuple[int, ...]
) -> None:
    await store_all_pages(stranger)
    for year in YEARS:
        await write_population(stranger, year)
    for year in order:
        result = await write_population(census, year)
    assert (await load_node(census, result)).properties == {"summary": "A state.", "population": 24}
    async with census.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Evidence)) == 6
        hashes = {await graph_fingerprint(session, agent.scope) for agent in (census, stranger)}
    assert len(hashes) == 1


async def test_a_page_about_the_past_counts_as_the_past(census: AgentGraph) -> None:
    await write_population(census, 2023)
    history = await write_population(census, 2024, valid_from=datetime(2022, 1, 1, tzinfo=UTC))
    current = {"held": 23, "asOf": "2023-06-30T00:00:00Z"}
    assert history.tool_answer["kept"]["population"] == current


async def test_a_start_that_no_sentence_states_does_not_count(census: AgentGraph) -> None:
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    forecast = await write_population(census, 2023, valid_from=begins)
    assert await current_value(census, forecast) == (23, datetime(2023, 6, 30, tzinfo=UTC))
    older = await write_population(census, 2022)
    assert await current_value(census, older) == (23, datetime(2023, 6, 30, tzinfo=UTC))
    correction = await write_population(census, 2024)
    assert await current_value(census, correction) == (24, datetime(2024, 6, 30, tzinfo=UTC))
    async with census.database.transaction() as session:
        assert await breaks(session, census.scope) == []


async def test_a_forecast_counts_from_its_day(census: AgentGraph) -> None:
    """Until then, it is only shown if nothing else is known."""
    forecast = await write_population(census, 2023, valid_from=FUTURE)
    assert forecast.tool_answer == {"created": True}
    assert await current_value(census, forecast) == (23, datetime(2023, 6, 30, tzinfo=UTC))
    older = await write_population(census, 2022)
    assert older.tool_answer["superseded"]["population"]["held"] == 23
    assert await current_value(census, older) == (22, datetime(2022, 6, 30, tzinfo=UTC))
    again = await write_population(census, 2023, valid_from=FUTURE)
    assert again.tool_answer == {"created": False, "upcoming": {"population": "2999-01-01"}}
    correction = await write_population(census, 2024)
    assert await current_value(census, correction) == (24, datetime(2024, 6, 30, tzinfo=UTC))
    async with census.database.transaction() as session:
        assert await breaks(session, census.scope) == []


async def test_a_forecast_of_a_page_without_a_date_has_no_date(census: AgentGraph) -> None:
    page = {"url": url(2999), "content": evidence_input(2999).quote}
    await census.store_search_results({"results": [page]})
    forecast = await write_population(census, 2999, valid_from=FUTURE)
    assert await current_value(census, forecast) == (999, None)
    dated = await write_population(census, 2022)
    assert await current_value(census, dated) == (22, datetime(2022, 6, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ((FUTURE, None), [51, 52]),
        ((None, FUTURE), [51, 51]),  # what is not valid yet does not count
        ((FUTURE, FUTURE), [51, 52]),
    ],
    ids=str,
)
@pytest.mark.parametrize("published", ["2024-06-30", ""])
async def test_a_later_reading_of_a_page_replaces_the_earlier_one(
    agent_graph: AgentGraph,
    begins: tuple[datetime | None, ...],
    expected: list[int],
    published: str,
) -> None:
    quotes = ["From 2999 there are 51 people in Ghana.", "In 2999 there are 52 people in Ghana."]
    page = {"url": url(2024), "content": " ".join(quotes), "published_date": published}
    await agent_graph.store_search_results({"results": [page]})
    steps = zip((51, 52), quotes, begins, expected, strict=True)
    for people, quote, valid_from, current in steps:
        evidence = [EvidenceInput(url(2024), quote, valid_from=valid_from)]
        reading = await agent_graph.add_node("Ghana", {**COUNTRY, "population": people}, evidence)
        assert await current_value(agent_graph, reading) == (
            current,
            datetime(2024, 6, 30, tzinfo=UTC) if published else None,
        )


async def test_values_without_evidence_are_superseded_and_reported(
    census: AgentGraph,
) -> None:
    result = await write_population(census, 2022)
    async with census.database.transaction() as session:
        await session.execute(
            update(GraphNode).values(
                properties={"summary": "A state.", "population": 22, "capital": "Accra"}, seal=None
            )
        )
    newer = await write_population(census, 2023)
    assert newer.tool_answer["superseded"] == {
        "population": {"held": 22, "asOf": "2022-06-30T00:00:00Z"}
    }
    after = await load_node(census, result)
    assert after.properties == {"summary": "A state.", "population": 23, "capital": "Accra"}
    assert after.seal is not None


async def test_retracting_a_page_restores_the_previous_value(census: AgentGraph) -> None:
    for year in YEARS:
        result = await write_population(census, year)
    for year, expected in ((2024, 23), (2023, 22)):
        async with census.database.transaction() as session:
            await session.execute(
                update(Source)
                .where(Source.url == url(year))
                .values(retracted_at=func.clock_timestamp())
            )
            properties = await reproject(session, census.scope, NODES, result.id)
        assert properties["population"] == expected


async def test_concurrent_writes_to_one_node_lose_no_evidence(census: AgentGraph) -> None:
    results = await asyncio.gather(
        *(write_population(census, YEARS[writer % len(YEARS)]) for writer in range(WRITERS))
    )
    assert sum(result.created for result in results) == 1
    after = await load_node(census, results[0])
    assert after.properties["population"] == 24
    async with census.database.transaction() as session:
        ids = list(await session.scalars(select(Evidence.id)))
    assert len(ids) == len(YEARS)
    assert after.seal == integrity.node_seal(
        node_id=after.id,
        agent_id=after.agent_id,
        type_name="Country",
        name="Ghana",
        properties=after.properties,
        evidence=ids,
    )


async def test_agents_do_not_use_the_evidence_of_others(census: AgentGraph) -> None:
    other = await store_all_pages(await make_agent_graph(census.database, "other"))
    await write_population(other, 2024)
    result = await write_population(census, 2022)
    assert result.tool_answer == {"created": True}
    assert (await load_node(census, result)).properties["population"] == 22
