"""Retracting a page, the effect on all that depends on it, and restoring it."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select

from shared.database.tables import Citation, Retraction, Source
from shared.graph import context
from shared.graph.retraction import retractions
from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.graph.evidence_rows import make_source
from tests.support.graph.retraction_graph import Library
from tests.support.graph.world import World
from tests.support.sql_capture import captured_statements

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


async def _query(library: Library) -> Json:
    async with library.world.database.transaction() as session:
        return await query.query_graph(session, library.world.scope)


async def test_elements_without_other_support_are_flagged_and_left_out(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"summary": "A state."}})
    togo = await library.node("Togo", {NEW: {"summary": "A state."}})
    border = await library.edge(ghana, togo, OLD)
    await library.retract(OLD)
    ghana_node = await library.get_node(ghana)
    assert ghana_node.unsupported_since is not None
    assert ghana_node.properties == {}
    assert (await library.state()).unsupported == {ghana, border}
    answer = await _query(library)
    assert [node["id"] for node in answer["nodes"]] == [str(togo)]
    assert answer["edges"] == []
    async with library.world.database.transaction() as session:
        survey = await context.build_survey(session, library.world.scope)
        description = await context.describe_nodes(session, library.world.scope, [ghana, togo])
    assert "Ghana" not in survey + description
    assert "Togo" in survey
    assert "Togo" in description


async def test_elements_with_other_support_keep_the_remaining_claims(library: Library) -> None:
    claims_by_url = {OLD: {"capital": "Accra", "summary": "A state."}, NEW: {"capital": "Kumasi"}}
    ghana = await library.node("Ghana", claims_by_url)
    assert (await library.get_node(ghana)).properties["capital"] == "Kumasi"
    await library.retract(NEW)
    node = await library.get_node(ghana)
    assert node.properties == {"capital": "Accra", "summary": "A state."}
    assert node.unsupported_since is None


async def test_elements_fully_supported_by_other_pages_are_not_updated(library: Library) -> None:
    """An update would cause another evaluation of its conclusions."""
    claims = {"capital": "Accra"}
    ghana = await library.node("Ghana", {OLD: claims, NEW: claims})
    before = await library.get_node(ghana)
    await library.retract(OLD)
    assert (await library.get_node(ghana)).updated_at == before.updated_at


async def test_propagation_sends_the_same_number_of_statements_for_many_nodes(
    library: Library,
) -> None:
    for number in range(8):
        await library.node(f"Node {number}", {NEW: {"capital": "Accra"}})
    await library.node("One", {OLD: {"capital": "Accra"}})
    assert await _count_statements(library, NEW) == await _count_statements(library, OLD)
    assert len((await library.state()).unsupported) == 9


async def _count_statements(library: Library, url: str) -> int:
    await library.ask_retract(url)
    with captured_statements() as statements:
        await library.work_off()
    return len(statements)


async def test_restoring_a_page_restores_the_previous_state(library: Library) -> None:
    claims_by_url: dict[str, Json] = {
        OLD: {"capital": "Accra"},
        NEW: {"capital": "Kumasi", "population": 3},
    }
    ghana = await library.node("Ghana", claims_by_url)
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


async def test_only_conclusions_on_changed_elements_are_in_doubt(
    library: Library,
) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    togo = await library.node("Togo", {OLD: {"capital": "Lomé"}, NEW: {"capital": "Lomé"}})
    direct = await library.analysis("On it", f"[node:{ghana}]")
    indirect = await library.analysis("On that", f"[node:{direct}]")
    advice = await library.advice("Wait", indirect)
    await library.analysis("Beside it", f"[node:{togo}]")
    await library.retract(OLD)
    assert await library.doubted() == {direct, indirect, advice}


async def test_the_owner_is_notified_once(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    advice = await library.advice("Wait", analysis)
    retraction_id = await library.retract(OLD, "the paper took it back")
    assert await library.retract(OLD) == retraction_id
    (notice,) = await library.notices()
    assert notice.title == "1 analysis and 1 advice of watcher in doubt"
    for word in (OLD, "the paper took it back", f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in notice.summary
    await library.restore(retraction_id)
    await library.restore(retraction_id)
    assert len(await library.notices()) == 1
    await library.retract(OLD)
    assert len(await library.notices()) == 2


async def test_a_retraction_that_affects_no_conclusion_notifies_nobody(library: Library) -> None:
    await library.node("Ghana", {OLD: {"capital": "Accra"}})
    await library.retract(OLD)
    assert await library.notices() == []


async def test_conclusions_older_than_the_citations_table_are_found(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    async with library.world.database.transaction() as session:
        await session.execute(delete(Citation))
    await library.retract(OLD)
    assert await library.doubted() == {analysis}


async def test_conclusions_that_cite_retracted_elements_are_refused(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    with pytest.raises(ToolRefusalError, match="retracted"):
        await library.analysis("Again", f"[node:{ghana}]")
    with pytest.raises(ToolRefusalError, match="retracted"):
        await library.advice("Wait", analysis)


async def test_another_page_restores_a_flagged_node(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: {"capital": "Accra"}})
    await library.retract(OLD)
    await library.says(NEW, {"capital": "Accra"}, node_id=ghana)
    node = await library.get_node(ghana)
    assert node.unsupported_since is None
    assert node.properties == {"capital": "Accra"}


async def test_a_page_fetched_again_stays_retracted(library: Library) -> None:
    await library.node("Ghana", {OLD: {"capital": "Accra"}})
    await library.retract(OLD)
    togo = await library.node("Togo", {OLD: {"capital": "Lomé"}})
    assert (await library.get_node(togo)).unsupported_since is not None


async def _add_versions(library: Library) -> tuple[UUID, UUID]:
    async with library.world.database.transaction() as session:
        scope = library.world.scope
        first = await make_source(session, scope, OLD, "First.", day=1)
        return first, await make_source(session, scope, OLD, "Second.", day=2)


async def _retraction_reasons(library: Library) -> dict[UUID, str | None]:
    async with library.world.database.transaction() as session:
        rows = await session.execute(
            select(Source.id, Source.retraction_reason).where(Source.retracted_at.is_not(None))
        )
        return {row[0]: row[1] for row in rows}


async def test_a_url_retracts_all_its_versions_and_an_id_only_one(library: Library) -> None:
    first, second = await _add_versions(library)
    by_id = await library.retract(str(second), "a slip")
    assert await _retraction_reasons(library) == {second: "a slip"}
    by_url = await library.retract(OLD, "a liar")
    assert await _retraction_reasons(library) == {first: "a liar", second: "a slip"}
    await library.restore(by_id)
    assert await _retraction_reasons(library) == {first: "a liar", second: "a liar"}
    await library.restore(by_url)
    assert await _retraction_reasons(library) == {}


async def test_a_version_stored_later_needs_another_retraction(library: Library) -> None:
    await _add_versions(library)
    first_id = await library.retract(OLD)
    async with library.world.database.transaction() as session:
        third = await make_source(session, library.world.scope, OLD, "Third.", day=3)
    assert third not in await _retraction_reasons(library)
    second_id = await library.retract(OLD)
    assert second_id != first_id
    assert len(await _retraction_reasons(library)) == 3
    assert await library.retract(OLD) in {first_id, second_id}


async def test_an_unknown_page_cannot_be_retracted(library: Library, stranger: World) -> None:
    source = (await _add_versions(library))[0]
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


async def test_another_owner_cannot_restore_a_page(library: Library, stranger: World) -> None:
    await _add_versions(library)
    retraction_id = await library.retract(OLD)
    async with library.world.database.transaction() as session:
        assert not await retractions.restore_source(session, stranger.scope, retraction_id)
