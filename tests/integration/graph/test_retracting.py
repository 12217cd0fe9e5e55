"""A page that is retracted, and everything that rests on it; then believed again, and everything as it was."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select

from shared.database.tables import Citation, Retraction, Source
from shared.graph import context
from shared.graph.retraction import retractions
from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.graph.evidence_rows import make_source
from tests.support.graph.library import Library
from tests.support.graph.world import World
from tests.support.sent import listened

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


async def _query(library: Library) -> Json:
    async with library.world.database.transaction() as session:
        return await query.query_graph(session, library.world.scope)


async def test_what_rests_on_it_alone_is_flagged_and_left_out(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"summary": "A state."}})
    togo = await library.node("Togo", {NEW: {"summary": "A state."}})
    border = await library.edge(ghana, togo, OLD)
    await library.retract(OLD)
    flagged = await library.found(ghana)
    assert flagged.unsupported_since is not None
    assert flagged.properties == {}
    assert (await library.state()).unsupported == {ghana, border}
    found = await _query(library)
    assert [node["id"] for node in found["nodes"]] == [str(togo)]
    assert found["edges"] == []
    async with library.world.database.transaction() as session:
        told = await context.build_survey(session, library.world.scope)
        described = await context.describe_nodes(session, library.world.scope, [ghana, togo])
    assert "Ghana" not in told + described
    assert "Togo" in told
    assert "Togo" in described


async def test_what_rests_on_others_too_is_what_they_say(library: Library) -> None:
    said = {OLD: {"capital": "Accra", "summary": "A state."}, NEW: {"capital": "Kumasi"}}
    ghana = await library.node("Ghana", said)
    assert (await library.found(ghana)).properties["capital"] == "Kumasi"
    await library.retract(NEW)
    node = await library.found(ghana)
    assert node.properties == {"capital": "Accra", "summary": "A state."}
    assert node.unsupported_since is None


async def test_what_others_bear_out_is_not_even_touched(library: Library) -> None:
    """What was concluded from it would be gone through anew."""
    said = {"capital": "Accra"}
    ghana = await library.node("Ghana", {OLD: said, NEW: said})
    before = await library.found(ghana)
    await library.retract(OLD)
    assert (await library.found(ghana)).updated_at == before.updated_at


async def test_many_take_no_more_statements_than_one(library: Library) -> None:
    for number in range(8):
        await library.node(f"Node {number}", {NEW: {"capital": "Accra"}})
    await library.node("One", {OLD: {"capital": "Accra"}})
    assert await _statements_for(library, NEW) == await _statements_for(library, OLD)
    assert len((await library.state()).unsupported) == 9


async def _statements_for(library: Library, url: str) -> int:
    await library.ask_retract(url)
    with listened() as sent:
        await library.work_off()
    return len(sent)


async def test_undone_all_is_as_it_was(library: Library) -> None:
    said: dict[str, Json] = {
        OLD: {"capital": "Accra"},
        NEW: {"capital": "Kumasi", "population": 3},
    }
    ghana = await library.node("Ghana", said)
    togo = await library.node("Togo", {NEW: {"capital": "Lomé"}})
    border = await library.edge(ghana, togo, NEW, OTHER)
    analysis = await library.analysis("Both", f"[node:{ghana}]", f"[edge:{border}]")
    await library.advice("Wait", analysis)
    before = await library.state()
    retraction = await library.retract(NEW)
    between = await library.state()
    assert between.canonical != before.canonical
    assert between.seals != before.seals
    assert between.unsupported
    assert between.doubted
    await library.restore(retraction)
    assert await library.state() == before


async def test_conclusions_on_what_changed_are_in_doubt_and_others_are_not(
    library: Library,
) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    borne_out = await library.node("Togo", {OLD: {"capital": "Lomé"}, NEW: {"capital": "Lomé"}})
    resting = await library.analysis("On it", f"[node:{ghana}]")
    upon = await library.analysis("On that", f"[node:{resting}]")
    advice = await library.advice("Wait", upon)
    await library.analysis("Beside it", f"[node:{borne_out}]")
    await library.retract(OLD)
    assert await library.doubted() == {resting, upon, advice}


async def test_the_owner_is_told_once(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    advice = await library.advice("Wait", analysis)
    made = await library.retract(OLD, "the paper took it back")
    assert await library.retract(OLD) == made
    (notice,) = await library.notices()
    assert notice.title == "1 analysis and 1 advice of watcher in doubt"
    for word in (OLD, "the paper took it back", f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in notice.summary
    await library.restore(made)
    await library.restore(made)
    assert len(await library.notices()) == 1
    await library.retract(OLD)
    assert len(await library.notices()) == 2


async def test_nobody_is_told_of_what_nobody_concluded_from(library: Library) -> None:
    await library.node("Ghana", {OLD: {"capital": "Accra"}})
    await library.retract(OLD)
    assert await library.notices() == []


async def test_conclusions_that_are_older_than_the_table_are_found(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    async with library.world.database.transaction() as session:
        await session.execute(delete(Citation))
    await library.retract(OLD)
    assert await library.doubted() == {analysis}


async def test_nothing_new_is_concluded_from_what_was_retracted(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    with pytest.raises(ToolRefusalError, match="retracted"):
        await library.analysis("Again", f"[node:{ghana}]")
    with pytest.raises(ToolRefusalError, match="retracted"):
        await library.advice("Wait", analysis)


async def test_another_page_brings_a_flagged_thing_back(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    await library.retract(OLD)
    await library.says(NEW, {"capital": "Accra"}, node_id=ghana)
    node = await library.found(ghana)
    assert node.unsupported_since is None
    assert node.properties == {"capital": "Accra"}


async def test_a_page_fetched_again_stays_retracted(library: Library) -> None:
    await library.node("Ghana", {OLD: {"capital": "Accra"}})
    await library.retract(OLD)
    togo = await library.node("Togo", {OLD: {"capital": "Lomé"}})
    assert (await library.found(togo)).unsupported_since is not None


async def _versions(library: Library) -> tuple[UUID, UUID]:
    async with library.world.database.transaction() as session:
        scope = library.world.scope
        first = await make_source(session, scope, OLD, "First.", day=1)
        return first, await make_source(session, scope, OLD, "Second.", day=2)


async def _retracted(library: Library) -> dict[UUID, str | None]:
    async with library.world.database.transaction() as session:
        rows = await session.execute(
            select(Source.id, Source.retraction_reason).where(Source.retracted_at.is_not(None))
        )
        return {row[0]: row[1] for row in rows}


async def test_a_url_is_all_its_versions_and_an_id_is_one(library: Library) -> None:
    first, second = await _versions(library)
    one = await library.retract(str(second), "a slip")
    assert await _retracted(library) == {second: "a slip"}
    all_of_it = await library.retract(OLD, "a liar")
    assert await _retracted(library) == {first: "a liar", second: "a slip"}
    await library.restore(one)
    assert await _retracted(library) == {first: "a liar", second: "a liar"}
    await library.restore(all_of_it)
    assert await _retracted(library) == {}


async def test_a_version_read_since_is_retracted_by_another_word(library: Library) -> None:
    await _versions(library)
    made = await library.retract(OLD)
    async with library.world.database.transaction() as session:
        third = await make_source(session, library.world.scope, OLD, "Third.", day=3)
    assert third not in await _retracted(library)
    again = await library.retract(OLD)
    assert again != made
    assert len(await _retracted(library)) == 3
    assert await library.retract(OLD) in {made, again}


async def test_what_was_never_read_cannot_be_retracted(library: Library, stranger: World) -> None:
    source = (await _versions(library))[0]
    async with library.world.database.transaction() as session:
        for scope, reference in (
            (library.world.scope, "https://nowhere.example"),
            (library.world.scope, str(uuid4())),
            (stranger.scope, OLD),
            (stranger.scope, str(source)),
        ):
            with pytest.raises(retractions.NoSuchSourceError):
                await retractions.retract_source(session, scope, reference, "because")
        assert (await session.scalars(select(Retraction))).all() == []


async def test_another_owner_restores_nothing(library: Library, stranger: World) -> None:
    await _versions(library)
    made = await library.retract(OLD)
    async with library.world.database.transaction() as session:
        assert not await retractions.restore_source(session, stranger.scope, made)
