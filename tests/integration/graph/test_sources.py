"""Pages as they are kept, and found again."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from shared.database.tables import Source
from shared.graph.provenance import integrity
from shared.graph.provenance.sources import find_pages, list_recent_urls, store_pages
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.graph.world import PAGE, World
from tests.support.sent import listened

URL = "https://press.example/lithium"
MAY = datetime(2024, 5, 1, tzinfo=UTC)


def page(text: str = "Orran shipped 92,000 tonnes.", **more: object) -> Json:
    return {"results": [{"url": URL, "title": " Lithium \n today", "content": text, **more}]}


async def kept(world: World, url: str = URL) -> list[Source]:
    async with world.database.transaction() as session:
        found = await session.scalars(
            select(Source).where(Source.url == url).order_by(Source.fetched_at, Source.text)
        )
        return list(found)


async def test_a_page_is_kept_as_it_came_and_sealed(world: World) -> None:
    text = "Überall – “½” 鉄鋼\n\n  so it stands"
    await world.read(page(text, published_date="2024-05-01"))
    (source,) = await kept(world)
    assert (source.text, source.title, source.published) == (text, "Lithium today", MAY)
    assert source.sha256 == integrity.sha256(text)
    assert source.seal == integrity.source_seal(
        source_id=source.id,
        agent_id=world.scope.agent_id,
        url=URL,
        title=source.title,
        published=source.published,
        fetched_at=source.fetched_at,
        text_sha256=source.sha256,
    )


async def test_what_is_kept_already_stays_and_what_changed_is_another(world: World) -> None:
    await world.read(page(), page(published_date="2025-01-01"), page("Orran shipped more."))
    first, second = await kept(world)
    assert (first.text, first.published) == ("Orran shipped 92,000 tonnes.", None)
    assert second.text == "Orran shipped more."


async def test_an_extract_takes_the_date_that_the_search_gave(world: World) -> None:
    await world.read(page("An excerpt.", published_date="Wed, 01 May 2024 00:00:00 GMT"))
    await world.read(page("The whole page."))
    assert [each.published for each in await kept(world)] == [MAY, MAY]


async def test_a_date_to_come_is_none(world: World) -> None:
    """Else whatever such a page says would be newer than all that is learned until then."""
    await world.read(page(published_date=str(datetime.now(UTC) + timedelta(days=400))))
    (source,) = await kept(world)
    assert source.published is None


@pytest.mark.parametrize(
    "result",
    [
        {"url": URL, "content": "  \n"},
        {"url": URL},
        {"url": "", "content": "text"},
        {"content": "text"},
        {"url": f"https://press.example/{'x' * 3_000}", "content": "text"},
    ],
)
async def test_what_cannot_be_quoted_is_not_kept_and_harms_nothing(
    world: World, result: Json
) -> None:
    await world.read({"results": [result, *page()["results"]], "failed": []}, {"content": "prose"})
    async with world.database.transaction() as session:
        urls = set(await session.scalars(select(Source.url)))
    assert urls == {URL, PAGE["url"]}


async def test_many_that_bring_the_same_pages_in_any_order_keep_each_once(world: World) -> None:
    pages = [{"url": f"{URL}/{number}", "content": f"Page {number}."} for number in range(20)]

    async def read(reader: int) -> None:
        for _ in range(3):
            await world.read({"results": [*pages[reader:], *pages[:reader]]})

    await asyncio.gather(*(read(reader) for reader in range(8)))
    assert all([len(await kept(world, each["url"])) == 1 for each in pages])


@pytest.mark.parametrize(
    "spelt",
    [f"{URL}/", f"{URL}#top", "https://Press.Example/lithium", f" {URL}/#a", f"HTTPS{URL[5:]}"],
)
async def test_an_address_is_found_however_it_is_spelt(world: World, spelt: str) -> None:
    await world.read(page())
    async with world.database.transaction() as session:
        found = await find_pages(session, world.scope, [spelt, f"{URL}?page=2", f"{URL}s"])
    assert [each.url for each in found[spelt]] == [URL]
    assert found.keys() == {spelt}


async def test_the_very_address_is_preferred_and_the_newest_version_first(world: World) -> None:
    for result in (page("Old."), page("New."), page("With a slash.", url=f"{URL}/")):
        await world.read(result)
    async with world.database.transaction() as session:
        found = await find_pages(session, world.scope, [URL])
        ids = {each.text: each.id for each in await kept(world)}
    assert [each.id for each in found[URL]] == [ids["New."], ids["Old."]]


async def test_an_address_kept_in_another_spelling_is_found(world: World) -> None:
    await world.read(page(url="https://Press.Example/Rivers/#1"))
    async with world.database.transaction() as session:
        found = await find_pages(session, world.scope, ["https://press.example/Rivers"])
        other_case = await find_pages(session, world.scope, ["https://press.example/rivers"])
    assert found
    assert not other_case


async def test_pages_of_others_are_not_found(world: World, stranger: World) -> None:
    await stranger.read(page())
    intruder = GraphScope(world.scope.owner_id, stranger.scope.agent_id)
    async with world.database.transaction() as session:
        for scope in (world.scope, intruder):
            assert await find_pages(session, scope, [URL]) == {}
        assert await list_recent_urls(session, intruder, 10) == []
        assert await list_recent_urls(session, world.scope, 10) == [PAGE["url"]]


async def test_a_page_of_an_agent_that_is_not_ones_own_is_not_kept(
    world: World, stranger: World
) -> None:
    intruder = GraphScope(world.scope.owner_id, stranger.scope.agent_id)
    with pytest.raises(Exception, match="null value"):
        async with world.database.transaction() as session:
            await store_pages(session, intruder, page())
    assert await kept(world) == []


async def test_retracted_pages_are_not_offered(world: World) -> None:
    await world.read(page())
    async with world.database.transaction() as session:
        await session.execute(
            update(Source).where(Source.url == URL).values(retracted_at=datetime.now(UTC))
        )
        assert await list_recent_urls(session, world.scope, 10) == [PAGE["url"]]


async def test_a_transaction_looks_a_page_up_once_and_again_once_it_has_kept_pages(
    world: World,
) -> None:
    await world.read({"results": [{"url": URL, "content": "As it was."}]})
    async with world.database.transaction() as session:
        [first] = (await find_pages(session, world.scope, [URL]))[URL]
        with listened() as sent:
            [again] = (await find_pages(session, world.scope, [URL]))[URL]
        assert not sent
        assert replace(again, looked_up_at=first.looked_up_at) == first
        assert again.looked_up_at > first.looked_up_at
        await store_pages(session, world.scope, {"results": [{"url": URL, "content": "As it is."}]})
        assert len((await find_pages(session, world.scope, [URL]))[URL]) == 2
