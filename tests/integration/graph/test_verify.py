"""A conclusion followed down to its pages, and a graph looked at as a whole."""

from typing import Any

import pytest
from sqlalchemy import delete, update

from shared.database.tables import Evidence, GraphNode, Source
from shared.graph.verification.verifier import check_page, verify_conclusion
from shared.schemas.provenance import CheckedView, FoundBreak, VerificationView
from tests.support.canonical_graph import canonical_hash
from tests.support.graph.library import Library
from tests.support.graph.proven import FETCHED, Proven, prove
from tests.support.graph.world import World


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


async def verified(proven: Proven, name: str) -> VerificationView:
    async with proven.world.database.snapshot() as session:
        found = await verify_conclusion(session, proven.scope.owner_id, proven.nodes[name])
    assert found is not None
    return found


async def swept(proven: Proven, rows: int = 500) -> tuple[CheckedView, list[FoundBreak]]:
    """All of it, page by page."""
    counts: dict[str, int] = {}
    breaks: list[FoundBreak] = []
    cursor: str | None = None
    while True:
        async with proven.world.database.snapshot() as session:
            page = await check_page(session, proven.scope, cursor=cursor, rows=rows)
        breaks += page.breaks
        for name, count in page.checked.model_dump().items():
            counts[name] = counts.get(name, 0) + count
        cursor = page.next
        if cursor is None:
            return CheckedView(**counts), breaks


async def change(proven: Proven, table: Any, key: Any, **values: Any) -> None:
    async with proven.world.database.transaction() as session:
        await session.execute(update(table).where(table.id == key).values(**values))


async def test_advice_is_followed_down_to_the_pages_that_it_rests_on(proven: Proven) -> None:
    found = await verified(proven, "Wait")
    assert found.holds
    assert [each.name for each in found.conclusions] == ["Wait", "Growth", "Borders"]
    assert {each.name for each in found.things} == {
        "Ghana",
        "Togo",
        "Ghana → Togo",
        "Growth → Ghana",
    }
    assert {each.url for each in found.sources} == set(list(proven.sources)[:3])
    by_quote = {each.quote: each for each in found.evidence}
    assert by_quote["Its capital is Lomé."].stands == ["capital", "summary"]
    superseded = by_quote["Ghana — “the Gold Coast” once — has 33 million"]
    assert superseded.stands == ["summary"]
    assert by_quote["Ghana now counts 35 million people"].stands == ["population"]
    assert not any(each.breaks for each in (*found.things, *found.evidence, *found.sources))


@pytest.mark.parametrize("rows", [1, 2, 500])
async def test_all_of_it_is_looked_at_whatever_the_size_of_a_page(
    proven: Proven, rows: int
) -> None:
    assert await swept(proven, rows) == (
        CheckedView(sources=5, evidence=7, nodes=5, edges=2),
        [],
    )


async def test_what_rests_on_something_broken_does_not_hold(proven: Proven) -> None:
    togo = "https://a.example/togo"
    await change(proven, Source, proven.sources[togo], text="Togo has 8 million people.")
    found = await verified(proven, "Wait")
    assert not found.holds
    concluded = {each.name for each in found.conclusions if not each.holds}
    assert concluded == {"Wait", "Growth", "Borders"}
    things = {each.name for each in found.things if not each.holds}
    assert things == {"Togo", "Ghana → Togo", "Growth → Ghana"}
    (source,) = [each for each in found.sources if each.breaks]
    assert (source.url, [each.broken for each in source.breaks]) == (togo, ["text"])
    spans = {each.quote: {fault.broken for fault in each.breaks} for each in found.evidence}
    assert spans["Togo has 8 million people"] == {"quote"}
    assert not spans["It borders Togo"]
    _, breaks = await swept(proven)
    assert {(each.link, each.broken) for each in breaks} >= {
        ("source", "text"),
        ("evidence", "quote"),
        ("evidence", "span"),
    }


async def test_what_rests_on_retracted_pages_alone_is_told(proven: Proven) -> None:
    for url in ("https://a.example/ghana", "https://b.example/census"):
        await proven.retract(url)
    found = await verified(proven, "Growth")
    (growth, *_) = found.conclusions
    assert [each.broken for each in growth.breaks] == ["retracted", "retracted"]
    _, breaks = await swept(proven)
    assert {(each.name, each.broken) for each in breaks} == {
        ("Growth", "retracted"),
        ("Borders", "retracted"),
    }
    for url in ("https://a.example/ghana", "https://b.example/census"):
        await proven.retract(url, undo=True)
    assert (await swept(proven))[1] == []


async def test_a_page_among_others_that_is_retracted_breaks_nothing(proven: Proven) -> None:
    await proven.retract("https://b.example/census")
    assert (await swept(proven))[1] == []
    assert (await verified(proven, "Wait")).holds


async def test_what_was_written_before_evidence_was_kept_is_unproven(proven: Proven) -> None:
    await proven.world.unproven("Benin")
    _, breaks = await swept(proven)
    assert {(each.name, each.broken) for each in breaks} == {("Benin", "unproven")}
    told = {each.message for each in breaks}
    assert {"no page supports it", "no page supports its summary"} < told


async def test_evidence_that_is_gone_is_missed(proven: Proven) -> None:
    async with proven.world.database.transaction() as session:
        await session.execute(
            delete(Evidence).where(Evidence.source_id == proven.sources["https://b.example/census"])
        )
    _, breaks = await swept(proven)
    assert {(each.link, each.name, each.broken) for each in breaks} == {
        ("node", "Ghana", "seal"),
        ("node", "Ghana", "property"),
    }


async def test_citations_must_hold(proven: Proven) -> None:
    told = {"summary": "So.", "content": "See [node:what].", "type": "pattern"}
    await change(proven, GraphNode, proven.nodes["Growth"], properties=told)
    _, breaks = await swept(proven)
    about_growth = [each.message for each in breaks if each.broken == "citation"]
    assert about_growth == ["it cites '[node:what]', which is malformed", "it cites nothing"]
    wrong = f"As [edge:{proven.edges['border']}] [node:{proven.nodes['Togo']}]."
    told = {"summary": "So.", "content": wrong, "action": "HOLD"}
    await change(proven, GraphNode, proven.nodes["Wait"], properties=told)
    found = await verified(proven, "Wait")
    (advice, *_) = found.conclusions
    assert [each.broken for each in advice.breaks] == ["seal", "citation", "citation"]


async def test_the_conclusions_of_others_are_not_there(proven: Proven, stranger: World) -> None:
    async with proven.world.database.snapshot() as session:
        for wanted in (proven.nodes["Wait"], proven.nodes["Ghana"]):
            owner_id = (
                stranger.scope.owner_id if wanted == proven.nodes["Wait"] else proven.scope.owner_id
            )
            assert await verify_conclusion(session, owner_id, wanted) is None


async def test_nothing_can_be_written_into_a_snapshot(proven: Proven) -> None:
    with pytest.raises(Exception, match="read-only"):
        async with proven.world.database.snapshot() as session:
            await session.execute(update(Source).values(fetched_at=FETCHED))
    async with proven.world.database.transaction() as session:
        await session.execute(update(Source).values(title="as before"))


@pytest.mark.parametrize("number", [6.02214076e23, 1e23, 1e300, -1e17, -0.0, 0.1, 1e-7, 5e-324])
async def test_numbers_hold_in_whatever_way_they_are_given_back(
    proven: Proven, number: float
) -> None:
    claims = {"lengths": [number, {"in": number}]}
    await proven.says("https://a.example/ghana", "It borders Togo", "border", claims)
    _, breaks = await swept(proven)
    assert breaks == []


async def test_what_a_retraction_has_not_come_to_yet_is_not_broken(
    proven: Proven, world: World
) -> None:
    """Nor where it is being undone; but what was changed meanwhile is found."""
    library = Library(world)
    before = await canonical_of(proven)
    made = await library.ask_retract("https://b.example/census")
    assert (await swept(proven))[1] == []
    ghana = proven.nodes["Ghana"]
    async with world.database.transaction() as session:
        said = (await session.get_one(GraphNode, ghana)).properties
    await change(proven, GraphNode, ghana, properties={"summary": "Another."})
    assert {each.broken for each in (await swept(proven))[1]} == {"seal"}
    await change(proven, GraphNode, ghana, properties=said)
    await library.work_off()
    await library.ask_restore(made)
    assert (await swept(proven))[1] == []
    await library.work_off()
    assert (await swept(proven))[1] == []
    assert await canonical_of(proven) == before


async def canonical_of(proven: Proven) -> str:
    async with proven.world.database.snapshot() as session:
        return await canonical_hash(session, proven.scope)
