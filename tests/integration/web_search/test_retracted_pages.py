"""A page of which all is retracted is barred until it is restored."""

from uuid import UUID

import pytest
from sqlalchemy import select

from services.researcher.acquisition import Acquired
from shared.database.tables import Source
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction.retractions import restore_source, retract_source
from shared.tools import Json
from tests.support.researching import (
    OTHER,
    PAGE,
    Researcher,
    query_that_reads,
    reading,
    searching,
)

QUERY = query_that_reads(PAGE.url, OTHER)


async def run(researcher: Researcher, *rounds: list[Json]) -> Acquired:
    return await researcher.run(*rounds, document="[1.1]")


async def retract(researcher: Researcher, reference: str) -> UUID:
    async with researcher.database.transaction() as session:
        return await retract_source(session, researcher.victim.scope, reference, "invented")


async def restore(researcher: Researcher, retraction_id: UUID) -> None:
    async with researcher.database.transaction() as session:
        assert await restore_source(session, researcher.victim.scope, retraction_id)


async def store(researcher: Researcher, text: str, url: str = PAGE.url) -> None:
    async with researcher.database.transaction() as session:
        answer = {"results": [{"url": url, "content": text}]}
        await store_pages(session, researcher.victim.scope, answer)


async def sources(researcher: Researcher) -> dict[UUID, str]:
    async with researcher.database.transaction() as session:
        rows = await session.execute(select(Source.id, Source.url))
        return {row.id: row.url for row in rows}


@pytest.mark.parametrize("address", [PAGE.url, f"{PAGE.url}/", f"{PAGE.url}#top"])
async def test_a_retracted_address_is_neither_shown_nor_stored_until_it_is_restored(
    researcher: Researcher, address: str
) -> None:
    await store(researcher, "Something else.", address)
    retraction_id = await retract(researcher, address)
    stored = await sources(researcher)
    await store(researcher, "What was read before, and is stored only now.", address)
    assert await sources(researcher) == stored
    calls = [[searching("lithium")], [searching("gold")], [reading(PAGE.url, OTHER)]]
    acquired = await run(researcher, *calls)
    assert [page.url for page in acquired.pages] == [OTHER]
    assert {*(await sources(researcher)).values()} == {*stored.values(), OTHER}
    assert researcher.web.read == [OTHER]

    await restore(researcher, retraction_id)
    acquired = await run(researcher, [searching("lithium")], [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [OTHER, PAGE.url]
    assert PAGE.url in (await sources(researcher)).values()
    assert researcher.web.read == [OTHER, PAGE.url]


async def test_retracting_each_version_bars_the_address_and_one_of_them_does_not(
    researcher: Researcher,
) -> None:
    await store(researcher, "First.")
    await store(researcher, "Second.")
    first, second = await sources(researcher)
    await retract(researcher, str(first))
    acquired = await run(researcher, [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]
    (third,) = {*await sources(researcher)} - {first, second}
    await retract(researcher, str(second))
    last = await retract(researcher, str(third))
    acquired = await run(researcher, [reading(PAGE.url, OTHER)])
    assert [page.url for page in acquired.pages] == [OTHER]
    await restore(researcher, last)
    acquired = await run(researcher, [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]


async def test_answers_from_before_a_retraction_are_recalled_without_the_page(
    researcher: Researcher,
) -> None:
    await run(researcher, [searching("lithium")], [reading(PAGE.url)])
    retraction_id = await retract(researcher, PAGE.url)
    acquired = await run(researcher, [searching("lithium")], [reading(PAGE.url, OTHER)])
    assert [page.url for page in acquired.pages] == [OTHER]
    assert len(researcher.web.searched) == 1, "the search was recalled"
    await restore(researcher, retraction_id)
    acquired = await run(researcher, [searching("lithium")])
    assert PAGE.url in [page.url for page in acquired.pages]


async def test_a_page_that_is_retracted_while_a_run_goes_on_is_not_stored(
    researcher: Researcher,
) -> None:
    await store(researcher, "Something else.")

    async def retracting(*_: object, **__: object) -> Json:
        await retract(researcher, PAGE.url)
        return {"results": [{"url": PAGE.url, "title": "T", "content": PAGE.text}], "failed": []}

    researcher.search.extract = retracting  # type: ignore[method-assign]
    await run(researcher, [reading(PAGE.url)])
    assert [*(await sources(researcher)).values()].count(PAGE.url) == 1
