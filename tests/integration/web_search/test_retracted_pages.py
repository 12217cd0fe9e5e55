"""A retraction holds for what is read later at the same address or site, until it is restored."""

from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import select

from services.researcher.acquisition import Acquired
from shared.database.tables import Agent, Source
from shared.graph.provenance.evidence import EvidenceInput, verify_quotes
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction.retractions import bar_site, restore_source, retract_source
from shared.tools import Json, ToolRefusalError
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


async def bar(researcher: Researcher, domain: str) -> UUID:
    async with researcher.database.transaction() as session:
        return await bar_site(session, researcher.victim.scope, domain, "bought")


async def barred(researcher: Researcher) -> list[str]:
    async with researcher.database.transaction() as session:
        return list((await session.scalars(select(Agent.barred_domains))).one())


async def store(researcher: Researcher, text: str, url: str = PAGE.url) -> None:
    async with researcher.database.transaction() as session:
        answer = {"results": [{"url": url, "content": text}]}
        await store_pages(session, researcher.victim.scope, answer)


async def reasons(researcher: Researcher) -> dict[tuple[str, str], str | None]:
    """By URL and text of each source, why it is retracted; None if it is not."""
    async with researcher.database.transaction() as session:
        rows = await session.execute(select(Source.url, Source.text, Source.retraction_reason))
        return {(row.url, row.text): row.retraction_reason for row in rows}


SPELLINGS: Final = (
    *(PAGE.url, f"{PAGE.url}/", f"{PAGE.url}#top", PAGE.url.replace("https:", "http:")),
    *(PAGE.url.replace("https://found", "HTTPS://Found"), f"{PAGE.url}?utm_source=x&fbclid=1"),
    PAGE.url.replace(".example", ".example:443"),
)


@pytest.mark.parametrize("address", SPELLINGS)
async def test_a_retracted_address_is_neither_shown_nor_read_until_it_is_restored(
    researcher: Researcher, address: str
) -> None:
    await store(researcher, "Something else.", address)
    retraction_id = await retract(researcher, address)
    calls = [[searching("lithium")], [searching("gold")], [reading(PAGE.url, OTHER)]]
    acquired = await run(researcher, *calls)
    assert [page.url for page in acquired.pages] == [OTHER]
    assert {url for url, _ in await reasons(researcher)} == {address, OTHER}
    assert researcher.web.read == [OTHER]

    await restore(researcher, retraction_id)
    acquired = await run(researcher, [searching("lithium")], [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [OTHER, PAGE.url]
    assert PAGE.url in await researcher.stored_urls()
    assert researcher.web.read == [OTHER, PAGE.url]


@pytest.mark.parametrize("address", SPELLINGS)
async def test_all_versions_of_an_address_are_retracted_those_that_are_stored_later_too(
    researcher: Researcher, address: str
) -> None:
    """And all are restored together."""
    await store(researcher, "First.")
    await store(researcher, "Second.", address)
    await store(researcher, "Another page.", f"{PAGE.url}/2")
    retraction_id = await retract(researcher, PAGE.url)
    await store(researcher, "Third.", address)
    await store(researcher, "Fourth.", f"{address.partition('#')[0]}#end")
    await store(researcher, "Another version.", f"{PAGE.url}/2")
    found = await reasons(researcher)
    assert {text for (_, text), reason in found.items() if reason == "invented"} == {
        *("First.", "Second.", "Third.", "Fourth.")
    }
    assert {text for (_, text), reason in found.items() if reason is None} == {
        *("Another page.", "Another version.")
    }
    await restore(researcher, retraction_id)
    await store(researcher, "Fifth.")
    assert {*(await reasons(researcher)).values()} == {None}


async def test_the_id_of_one_version_retracts_its_page(researcher: Researcher) -> None:
    await store(researcher, "First.")
    await store(researcher, "Second.")
    async with researcher.database.transaction() as session:
        first, second = await session.scalars(select(Source.id))
    retraction_id = await retract(researcher, str(first))
    assert await retract(researcher, str(second)) == retraction_id
    assert {*(await reasons(researcher)).values()} == {"invented"}
    acquired = await run(researcher, [reading(PAGE.url, OTHER)])
    assert [page.url for page in acquired.pages] == [OTHER]
    await restore(researcher, retraction_id)
    acquired = await run(researcher, [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]


async def test_a_barred_site_is_neither_read_nor_believed_until_it_is_restored(
    researcher: Researcher,
) -> None:
    sub = "http://news.found.example/b"
    for url in (PAGE.url, sub, OTHER, "https://notfound.example/page"):
        await store(researcher, "Something else.", url)
    retraction_id = await bar(researcher, "found.example")
    assert await bar(researcher, "found.example") == retraction_id
    await store(researcher, "It was read before.", f"{PAGE.url}/3")
    retracted = {url for (url, _), reason in (await reasons(researcher)).items() if reason}
    assert retracted == {PAGE.url, sub, f"{PAGE.url}/3"}
    assert await barred(researcher) == ["found.example"]
    acquired = await run(researcher, [searching("lithium")], [reading(PAGE.url, OTHER)])
    assert [page.url for page in acquired.pages] == [OTHER]
    assert researcher.web.read == [OTHER]

    await restore(researcher, retraction_id)
    assert {*(await reasons(researcher)).values()} == {None}
    assert await barred(researcher) == []
    acquired = await run(researcher, [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]


async def test_a_page_counts_again_only_when_page_and_site_are_restored(
    researcher: Researcher,
) -> None:
    await store(researcher, "First.")
    of_page = await retract(researcher, PAGE.url)
    of_site = await bar(researcher, "found.example")
    await store(researcher, "Second.")
    assert {*(await reasons(researcher)).values()} == {"invented"}
    await restore(researcher, of_page)
    assert {*(await reasons(researcher)).values()} == {"bought"}
    await store(researcher, "Third.")
    await restore(researcher, of_site)
    assert {*(await reasons(researcher)).values()} == {None}


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


async def test_a_page_that_is_retracted_while_it_is_read_is_not_shown(
    researcher: Researcher,
) -> None:
    await store(researcher, "Something else.")

    async def retracting(*_: object, **__: object) -> Json:
        await retract(researcher, PAGE.url)
        return {"results": [{"url": PAGE.url, "title": "T", "content": PAGE.text}], "failed": []}

    researcher.search.extract = retracting  # type: ignore[method-assign]
    acquired = await run(researcher, [reading(PAGE.url)])
    assert PAGE.url not in [page.url for page in acquired.pages]
    assert [url for url, _ in await reasons(researcher)].count(PAGE.url) == 1


async def test_a_page_that_is_retracted_after_it_was_shown_cannot_be_cited(
    researcher: Researcher,
) -> None:
    """Evidence from it is refused with the reason."""
    acquired = await run(researcher, [reading(PAGE.url)])
    assert [page.url for page in acquired.pages] == [PAGE.url]
    await retract(researcher, PAGE.url)
    async with researcher.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match=r"this page is retracted: invented"):
            await verify_quotes(
                session,
                researcher.victim.scope,
                {"summary": "It is mined."},
                [EvidenceInput(PAGE.url, PAGE.text)],
            )
