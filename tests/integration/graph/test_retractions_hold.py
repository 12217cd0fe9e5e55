"""Retractions hold for what is read later: while pages are being stored, after an upgrade, and in random order."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib import import_module
from random import Random
from typing import Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from shared.database.tables import RetractedSource, Retraction, Source
from shared.database.transaction import Transaction
from shared.graph.provenance import coverage
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction import retractions
from shared.graph.scope import GraphScope
from shared.schemas.provenance import ElementFault
from shared.urls import page_key
from tests.support.graph.agent_graph import PAGE as ATLAS
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.retraction_walk import RetractionWalk
from tests.support.graph.verification import breaks
from tests.support.marks import slow
from tests.support.waiting import wait_until

PAGE: Final = "https://false.example/page"
SITE: Final = "false.example"
WALKS: Final = [0, *slow(*range(1, 12))]
STEPS: Final = 60
READERS: Final = 4
ROUNDS: Final = 4


@pytest.mark.parametrize("number", WALKS)
async def test_nothing_of_a_retracted_address_supports_anything_and_restoring_brings_all_back(
    retraction_graph: RetractionGraph, seed: int, number: int
) -> None:
    walk = RetractionWalk(retraction_graph, Random(seed + number))
    for _ in range(STEPS):
        await walk.step()
    assert walk.written, "it wrote nothing"
    assert walk.refused, "it was refused nothing"
    await walk.end()


async def _store(session: Transaction, scope: GraphScope, url: str, content: str) -> None:
    await store_pages(session, scope, {"results": [{"url": url, "content": content}]})


async def _reasons(graph: RetractionGraph) -> dict[str, str | None]:
    async with graph.agent_graph.database.transaction() as session:
        is_other = Source.url == ATLAS["url"]
        rows = await session.execute(select(Source.text, Source.retraction_reason).where(~is_other))
        return {row.text: row.retraction_reason for row in rows}


async def _breaks(graph: RetractionGraph) -> list[ElementFault]:
    async with graph.agent_graph.database.transaction() as session:
        return await breaks(session, graph.agent_graph.scope)


async def _is_waiting_for_lock(graph: RetractionGraph) -> bool:
    async with graph.agent_graph.database.transaction() as session:
        waiting = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
        return bool(await session.scalar(text(waiting)))


def _retract_page(graph: RetractionGraph) -> Awaitable[UUID]:
    return graph.ask_retract(PAGE)


def _bar_site(graph: RetractionGraph) -> Awaitable[UUID]:
    return graph.ask_bar(SITE, "made up")


WAYS: Final = [_retract_page, _bar_site]
Way = Callable[[RetractionGraph], Awaitable[UUID]]


@pytest.mark.parametrize("way", WAYS)
async def test_a_retraction_waits_for_a_page_that_is_being_stored(
    retraction_graph: RetractionGraph, way: Way
) -> None:
    """And covers it."""
    scope = retraction_graph.agent_graph.scope
    await retraction_graph.read_again(PAGE, "First.")
    async with retraction_graph.agent_graph.database.transaction() as session:
        await _store(session, scope, f"{PAGE}/?utm_source=x", "Second.")
        retracting = asyncio.ensure_future(way(retraction_graph))
        await wait_until(
            lambda: _is_waiting_for_lock(retraction_graph), what="the retraction to wait"
        )
    await retracting
    assert await _reasons(retraction_graph) == {"First.": "made up", "Second.": "made up"}


@pytest.mark.parametrize("way", WAYS)
async def test_a_page_that_is_stored_during_a_retraction_waits_for_it(
    retraction_graph: RetractionGraph, way: Way
) -> None:
    """It is stored as retracted, and counts when the retraction is undone."""
    graph, scope = retraction_graph.agent_graph, retraction_graph.agent_graph.scope
    await retraction_graph.read_again(PAGE, "First.")
    async with graph.database.transaction() as session:
        if way is _bar_site:
            retraction_id = await retractions.bar_site(session, scope, SITE, "made up")
        else:
            retraction_id = await retractions.retract_source(session, scope, PAGE, "made up")

        async def store() -> None:
            async with graph.database.transaction() as other:
                await _store(other, scope, PAGE.replace("https", "http"), "Second.")

        storing = asyncio.ensure_future(store())
        await wait_until(lambda: _is_waiting_for_lock(retraction_graph), what="the page to wait")
    await storing
    assert await _reasons(retraction_graph) == {"First.": "made up", "Second.": "made up"}
    await retraction_graph.work_off()
    assert await _breaks(retraction_graph) == []
    await retraction_graph.restore(retraction_id)
    assert await _reasons(retraction_graph) == {"First.": None, "Second.": None}
    assert await _breaks(retraction_graph) == []


async def test_pages_are_stored_while_they_are_retracted_and_restored(
    retraction_graph: RetractionGraph, seed: int
) -> None:
    """Readers, retractions and their propagation run at once, and none deadlocks."""
    chance, scope = Random(seed), retraction_graph.agent_graph.scope
    database = retraction_graph.agent_graph.database
    await retraction_graph.read_again(PAGE, "First.")
    outcomes = Counter[str]()

    async def read(reader: int) -> None:
        for round_ in range(ROUNDS):
            async with database.transaction() as session:
                url = chance.choice([PAGE, f"{PAGE}/", f"http://{SITE}/{reader}"])
                await _store(session, scope, url, f"Edition {reader}.{round_}.")
            outcomes["read"] += 1

    async def retract(way: Way) -> UUID:
        for _ in range(ROUNDS):
            retraction_id = await way(retraction_graph)
            if chance.random() < 0.5:
                await retraction_graph.work_off(at_once=2)
            await retraction_graph.ask_restore(retraction_id)
        return await way(retraction_graph)

    undone = await asyncio.gather(*map(retract, WAYS), *map(read, range(READERS)))
    assert outcomes["read"] == READERS * ROUNDS
    await retraction_graph.work_off()
    assert {*(await _reasons(retraction_graph)).values()} == {"made up"}
    for retraction_id in undone:
        if retraction_id is not None:
            await retraction_graph.restore(retraction_id)
    assert {*(await _reasons(retraction_graph)).values()} == {None}
    async with database.transaction() as session:
        await session.execute(text("select pg_stat_force_next_flush()"))
        deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
        assert await session.scalar(text(deadlocks)) == 0


ADDRESSES: Final = (
    *("https://a.example/p", "http://A.example:80/p/", "https://a.example:443/P?b=1&utm_source=x"),
    *("https://a.example/p?utm_source=x", "https://a.example", "https://a.example/p?fbclid=1#top"),
    *("https://a.example/p?UTM_Medium=x&b=2&gclid=3", "https://a.example/p//?b&c", "no address"),
    *(" https://a.example/p?a=1&b=2 ", "https://a.example/p?", "https://a.example/?b=/"),
)


async def test_a_migration_makes_retractions_of_earlier_releases_hold(
    retraction_graph: RetractionGraph,
) -> None:
    """Those of addresses, and those of single versions where no version counts."""
    graph, scope = retraction_graph.agent_graph, retraction_graph.agent_graph.scope
    migration = import_module("shared.database.migrations.versions.0038_retractions_hold")
    one = await retraction_graph.read_again("https://one.example/", "First.")
    await retraction_graph.read_again("https://two.example/", "First.")
    two = await retraction_graph.read_again("https://two.example/", "Second.")
    undone = await retraction_graph.ask_retract("https://two.example")
    await retraction_graph.ask_restore(undone)
    by_id = {each: uuid4() for each in (one, two)}
    by_url = {url: uuid4() for url in ADDRESSES}
    async with graph.database.transaction() as session:
        for source_id, retraction_id in by_id.items():
            await session.execute(
                text(
                    "update sources set retracted_at = now(), retraction_reason = 'x' where id = :id"
                ),
                {"id": source_id},
            )
            url = "https://one.example/" if source_id == one else "https://two.example/"
            row = {"id": retraction_id, "agent_id": scope.agent_id, "url": url, "reason": "x"}
            await session.insert(Retraction, **row, source_id=source_id)
            await session.insert(
                RetractedSource, retraction_id=retraction_id, source_id=source_id, is_due=False
            )
        for url, retraction_id in by_url.items():
            row = {"id": retraction_id, "agent_id": scope.agent_id, "url": url, "reason": "x"}
            await session.insert(Retraction, **row)
        await session.execute(text(migration.FILL))
        rows = await session.execute(select(Retraction.id, Retraction.covers))
        covers = {row.id: row.covers for row in rows}
    assert {url: covers[each] for url, each in by_url.items()} == {
        url: page_key(url) for url in ADDRESSES
    }
    assert (covers[by_id[one]], covers[by_id[two]]) == ("one.example", None)
    assert await _breaks(retraction_graph) == []
    later = await retraction_graph.read_again("http://one.example", "Later.")
    assert (await _reasons(retraction_graph))["Later."] == "x"
    await retraction_graph.restore(by_id[one])
    async with graph.database.transaction() as session:
        retracted = set(
            await session.scalars(select(Source.id).where(Source.retracted_at.is_not(None)))
        )
    assert {one, later}.isdisjoint(retracted)


def test_a_site_covers_its_subdomains_and_a_page_its_spellings() -> None:
    assert coverage.covering("http://news.a.example:80/p/?utm_source=x#y") == [
        *("news.a.example/p", "*.news.a.example", "*.a.example", "*.example")
    ]
    assert coverage.covering("https://a.example/p") != coverage.covering("https://a.example/q")
    assert "*.a.example" not in coverage.covering("https://nota.example/p")
    assert coverage.site_covered(coverage.of_site("a.example")) == "a.example"
    assert coverage.site_covered("a.example/p") is None
