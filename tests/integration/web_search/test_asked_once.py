"""A search with the same words, and a page, are paid for once within the time for which answers hold."""

from decimal import Decimal
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from shared.agents import agents
from shared.database.tables import Agent, Call, PageProbe
from shared.enums import CallKind, ProbeKind
from shared.tools import Json
from shared.web_search.memory import SearchMemory
from tests.support.researching import (
    HOUR,
    OTHER,
    PAGE,
    Researcher,
    query_that_reads,
    reading,
    searching,
)
from tests.support.scheduling import ago

QUERY = query_that_reads(PAGE.url, OTHER)


async def ask(
    researcher: Researcher, *calls: Json, is_shared: bool = False, agent_id: UUID | None = None
) -> None:
    agent_id = agent_id or researcher.victim.agent.id
    memory = SearchMemory(researcher.database, agent_id, HOUR, is_shared)
    acquired = await researcher.run(calls, memory=memory)
    assert PAGE.url in [page.url for page in acquired.pages]


async def costs(researcher: Researcher) -> list[Decimal]:
    async with researcher.database.transaction() as session:
        paid = await session.scalars(
            select(Call.cost_usd)
            .where(Call.kind == CallKind.SEARCH)
            .order_by(Call.started_at, Call.id)
        )
        return [cost for cost in paid if cost is not None]


async def test_a_search_with_the_same_words_is_paid_for_once(researcher: Researcher) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    await ask(researcher, searching("Ghana  Lithium in"))
    first, second = await costs(researcher)
    assert first > 0
    assert second == 0
    assert len(researcher.web.excluded) == 1, "the service was asked once"


@pytest.mark.parametrize(
    "other", [searching("lithium in Togo"), searching("lithium in Ghana", maxResults=9)]
)
async def test_another_search_is_paid_for(researcher: Researcher, other: Json) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    await ask(researcher, other)
    assert all(cost > 0 for cost in await costs(researcher))


async def test_a_page_is_read_once(researcher: Researcher) -> None:
    await ask(researcher, reading(PAGE.url, OTHER))
    await ask(researcher, reading(PAGE.url))
    first, second = await costs(researcher)
    assert first > 0
    assert second == 0
    assert researcher.web.read == [PAGE.url, OTHER]


async def test_a_page_that_has_changed_is_read_again(researcher: Researcher) -> None:
    await ask(researcher, reading(PAGE.url))
    async with researcher.database.transaction() as session:
        await session.insert(
            PageProbe,
            agent_id=researcher.victim.agent.id,
            url=PAGE.url,
            kind=ProbeKind.PAGE,
            checked_at=func.clock_timestamp(),
            changed_at=func.clock_timestamp(),
        )
    await ask(researcher, reading(PAGE.url))
    assert all(cost > 0 for cost in await costs(researcher))


async def test_an_answer_does_not_hold_for_longer(researcher: Researcher) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        await session.execute(update(Call).values(started_at=ago(HOUR.total_seconds() + 1)))
    await ask(researcher, searching("lithium in Ghana"))
    assert all(cost > 0 for cost in await costs(researcher))


async def test_a_recalled_answer_holds_no_longer_than_the_first(researcher: Researcher) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    await ask(researcher, searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        await session.execute(
            update(Call).where(Call.cost_usd > 0).values(started_at=ago(HOUR.total_seconds() + 1))
        )
    await ask(researcher, searching("lithium in Ghana"))
    assert sorted(cost > 0 for cost in await costs(researcher)) == [False, True, True]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_answers_to_other_agents_hold_where_that_is_set(
    researcher: Researcher, is_shared: bool
) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        other = await agents.create_agent(
            session, researcher.victim.agent.owner_id, name="B", mission="x", interval_seconds=60
        )
    await ask(researcher, searching("lithium in Ghana"), is_shared=is_shared, agent_id=other.id)
    assert [cost > 0 for cost in await costs(researcher)] == [True, not is_shared]


async def test_answers_from_another_corpus_are_not_shared(researcher: Researcher) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        other = await agents.create_agent(
            session,
            researcher.victim.agent.owner_id,
            name="B",
            mission="x",
            interval_seconds=60,
            corpus="reports-1234abcd",
        )
    await ask(researcher, searching("lithium in Ghana"), is_shared=True, agent_id=other.id)
    assert [cost > 0 for cost in await costs(researcher)] == [True, True]


async def test_a_site_that_was_barred_meanwhile_is_left_out(researcher: Researcher) -> None:
    await ask(researcher, searching("lithium in Ghana"))
    async with researcher.database.transaction() as session:
        await session.execute(update(Agent).values(barred_domains=["good.example"]))
    await ask(researcher, searching("lithium in Ghana"))
    urls = [{each["url"] for each in answer["results"]} for answer in await researcher.answers()]
    assert [OTHER in each for each in urls] == [True, False]
