"""Pages found by a part of their address, and what rests on one."""

from datetime import UTC, datetime

from sqlalchemy import update

from services.api.queries import provenance
from shared.database.engine import Database
from shared.database.tables import Source
from tests.support.graph.world import PAGE, make_world


async def test_a_part_of_address_or_title_is_enough_and_no_sign_is_a_pattern(
    database: Database,
) -> None:
    world = await make_world(database)
    page = {**PAGE, "url": "https://press.example/100%25_of", "title": "All of it"}
    await world.read({"results": [page]})
    async with database.transaction() as session:

        async def found(part: str, *, retracted: bool | None = None) -> list[str]:
            told = await provenance.search_sources(session, world.scope, part, retracted=retracted)
            return [each.url for each in told]

        assert await found("ATLAS") == [PAGE["url"]]
        assert await found("all of") == [page["url"]]
        assert await found("%25_") == [page["url"]]
        assert await found("s_a") == []
        assert await found("example", retracted=True) == []
        await session.execute(
            update(Source).where(Source.url == page["url"]).values(retracted_at=datetime.now(UTC))
        )
        assert await found("example", retracted=True) == [page["url"]]
        assert await found("example", retracted=False) == [PAGE["url"]]


async def test_what_rests_on_a_page_is_told_in_the_order_of_its_text(database: Database) -> None:
    world, other = await make_world(database), await make_world(database, "other")
    aland, borland = await world.node("Aland"), await world.node("Borland")
    edge = await world.edge(aland, borland)
    async with database.transaction() as session:
        [page] = await provenance.search_sources(session, world.scope, "atlas")
        told = await provenance.list_marks(session, world.scope, page.id)
        counts = await provenance.count_quotes(session, world.scope, [page.id])
        assert (await provenance.list_marks(session, other.scope, page.id)).items == []
        assert await provenance.count_quotes(session, other.scope, [page.id]) == {}
    assert {(mark.kind, mark.element_id) for mark in told.items} == {
        ("node", aland),
        ("node", borland),
        ("edge", edge),
    }
    assert counts == {page.id: 3}
    assert not told.cut
    assert next(mark.name for mark in told.items if mark.kind == "edge") == "Aland → Borland"
