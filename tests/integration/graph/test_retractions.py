"""Retracting a page, the effect on all that depends on it, and restoring it."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select

from shared.database.tables import Citation, Retraction, Source
from shared.enums import StepKind
from shared.graph import context
from shared.graph.retraction import doubts, retractions
from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.descriptions import describe_nodes
from tests.support.graph.evidence_rows import make_source
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.sql_capture import captured_statements

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))


@pytest.fixture
def retraction_graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


async def _query(retraction_graph: RetractionGraph) -> Json:
    async with retraction_graph.agent_graph.database.transaction() as session:
        return await query.query_graph(session, retraction_graph.agent_graph.scope)


async def test_elements_without_other_support_are_flagged_and_left_out(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: {"summary": "A state."}})
    togo = await retraction_graph.node("Togo", {NEW: {"summary": "A state."}})
    border = await retraction_graph.edge(ghana, togo, OLD)
    await retraction_graph.retract(OLD)
    ghana_node = await retraction_graph.get_node(ghana)
    assert ghana_node.unsupported_since is not None
    assert ghana_node.properties == {}
    assert (await retraction_graph.state()).unsupported == {ghana, border}
    answer = await _query(retraction_graph)
    assert [node["id"] for node in answer["nodes"]] == [str(togo)]
    assert answer["edges"] == []
    async with retraction_graph.agent_graph.database.transaction() as session:
        survey = await context.build_survey(
            session, retraction_graph.agent_graph.scope, StepKind.OBSERVE
        )
        description = await describe_nodes(
            session, retraction_graph.agent_graph.scope, [ghana, togo]
        )
    assert "Ghana" not in survey + description
    assert "Togo" in survey
    assert "Togo" in description


async def test_elements_fully_supported_by_other_pages_are_not_updated(
    retraction_graph: RetractionGraph,
) -> None:
    """An update would cause another evaluation of its conclusions."""
    claims = {"capital": "Accra"}
    ghana = await retraction_graph.node("Ghana", {OLD: claims, NEW: claims})
    before = await retraction_graph.get_node(ghana)
    await retraction_graph.retract(OLD)
    assert (await retraction_graph.get_node(ghana)).updated_at == before.updated_at


async def test_propagation_sends_the_same_number_of_statements_for_many_nodes(
    retraction_graph: RetractionGraph,
) -> None:
    for number in range(8):
        await retraction_graph.node(f"Node {number}", {NEW: {"capital": "Accra"}})
    await retraction_graph.node("One", {OLD: {"capital": "Accra"}})
    assert await _count_statements(retraction_graph, NEW) == await _count_statements(
        retraction_graph, OLD
    )
    assert len((await retraction_graph.state()).unsupported) == 9


async def _count_statements(retraction_graph: RetractionGraph, url: str) -> int:
    await retraction_graph.ask_retract(url)
    with captured_statements() as statements:
        await retraction_graph.work_off()
    return len(statements)


async def test_only_conclusions_on_changed_elements_are_in_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    togo = await retraction_graph.node("Togo", {OLD: {"capital": "Lomé"}, NEW: {"capital": "Lomé"}})
    direct = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    indirect = await retraction_graph.analysis("On that", f"[node:{direct}]")
    advice = await retraction_graph.advice("Wait", indirect)
    await retraction_graph.analysis("Beside it", f"[node:{togo}]")
    await retraction_graph.retract(OLD)
    assert await retraction_graph.doubted() == {direct, indirect, advice}


async def test_the_owner_is_notified_once(retraction_graph: RetractionGraph) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    advice = await retraction_graph.advice("Wait", analysis)
    retraction_id = await retraction_graph.retract(OLD, "the paper took it back")
    assert await retraction_graph.retract(OLD) == retraction_id
    (notice,) = await retraction_graph.notices()
    assert notice.title == "In doubt: 1 analysis and 1 piece of advice of watcher"
    for word in (OLD, "the paper took it back", f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in notice.summary
    await retraction_graph.restore(retraction_id)
    await retraction_graph.restore(retraction_id)
    assert len(await retraction_graph.notices()) == 1
    await retraction_graph.retract(OLD)
    assert len(await retraction_graph.notices()) == 2


async def test_the_notice_is_resolved_when_no_doubt_of_its_retraction_is_left(
    retraction_graph: RetractionGraph,
) -> None:
    for name, url in (("Ghana", OLD), ("Togo", NEW)):
        node = await retraction_graph.node(name, {url: {"capital": "Accra"}})
        await retraction_graph.analysis(f"On {name}", f"[node:{node}]")
    first, second = [await retraction_graph.retract(url) for url in (OLD, NEW)]
    again = await retraction_graph.retract(str(await retraction_graph.source_id(OLD)))
    # The version stays retracted, and its conclusion in doubt.
    await retraction_graph.restore(first)
    assert not any(notice.resolved_at for notice in await retraction_graph.notices())
    await retraction_graph.restore(second)
    assert [
        "Togo" in notice.summary
        for notice in await retraction_graph.notices()
        if notice.resolved_at is not None
    ] == [True]
    await retraction_graph.restore(again)
    assert await retraction_graph.doubted() == set()


async def test_what_a_retraction_would_do_is_foreseen(retraction_graph: RetractionGraph) -> None:
    alone = await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    other = {OLD: {"capital": "Lomé"}, NEW: {"capital": "Kara"}}
    changed = await retraction_graph.node("Togo", other)
    confirmed = {OLD: {"capital": "Niamey"}, NEW: {"capital": "Niamey"}}
    same = await retraction_graph.node("Niger", confirmed)
    analysis = await retraction_graph.analysis("On Ghana", f"[node:{alone}]")
    await retraction_graph.advice("Wait", analysis)
    await retraction_graph.analysis("On Niger", f"[node:{same}]")
    scope = retraction_graph.agent_graph.scope

    async def foresee(*urls: str) -> doubts.ForeseenRetraction:
        sources = {await retraction_graph.source_id(url) for url in urls}
        async with retraction_graph.agent_graph.database.transaction() as session:
            return await doubts.foresee_retraction(session, scope, sources)

    of_new, of_old, of_both = await foresee(NEW), await foresee(OLD), await foresee(OLD, NEW)
    assert (of_new.unsupported, of_new.changed, of_new.analyses) == (0, 1, 0)
    assert (of_old.unsupported, of_old.analyses, of_old.advice) == (1, 1, 1)
    assert (of_both.unsupported, of_both.changed) == (3, 0)
    assert (of_both.analyses, of_both.advice) == (2, 1)
    # Nothing has happened yet, and it happens as foreseen.
    assert (await retraction_graph.state()).unsupported == set()
    await retraction_graph.retract(OLD)
    assert (await retraction_graph.state()).unsupported == {alone}
    assert len(await retraction_graph.doubted()) == of_old.analyses + of_old.advice
    assert (await retraction_graph.get_node(changed)).properties == {"capital": "Kara"}


async def test_a_retraction_that_affects_no_conclusion_notifies_nobody(
    retraction_graph: RetractionGraph,
) -> None:
    await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    await retraction_graph.retract(OLD)
    assert await retraction_graph.notices() == []


async def test_conclusions_older_than_the_citations_table_are_found(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    async with retraction_graph.agent_graph.database.transaction() as session:
        await session.execute(delete(Citation))
    await retraction_graph.retract(OLD)
    assert await retraction_graph.doubted() == {analysis}


async def test_conclusions_that_cite_retracted_elements_are_refused(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    with pytest.raises(ToolRefusalError, match="retracted"):
        await retraction_graph.analysis("Again", f"[node:{ghana}]")
    with pytest.raises(ToolRefusalError, match="retracted"):
        await retraction_graph.advice("Wait", analysis)


async def test_another_page_restores_a_flagged_node(retraction_graph: RetractionGraph) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"capital": "Accra"}, node_id=ghana)
    node = await retraction_graph.get_node(ghana)
    assert node.unsupported_since is None
    assert node.properties == {"capital": "Accra"}


async def test_a_page_fetched_again_stays_retracted(retraction_graph: RetractionGraph) -> None:
    await retraction_graph.node("Ghana", {OLD: {"capital": "Accra"}})
    await retraction_graph.retract(OLD)
    togo = await retraction_graph.node("Togo", {OLD: {"capital": "Lomé"}})
    assert (await retraction_graph.get_node(togo)).unsupported_since is not None


async def _add_versions(retraction_graph: RetractionGraph) -> tuple[UUID, UUID]:
    async with retraction_graph.agent_graph.database.transaction() as session:
        scope = retraction_graph.agent_graph.scope
        first = await make_source(session, scope, OLD, "First.", day=1)
        return first, await make_source(session, scope, OLD, "Second.", day=2)


async def _retraction_reasons(retraction_graph: RetractionGraph) -> dict[UUID, str | None]:
    async with retraction_graph.agent_graph.database.transaction() as session:
        rows = await session.execute(
            select(Source.id, Source.retraction_reason).where(Source.retracted_at.is_not(None))
        )
        return {row[0]: row[1] for row in rows}


async def test_a_url_retracts_all_its_versions_and_an_id_only_one(
    retraction_graph: RetractionGraph,
) -> None:
    first, second = await _add_versions(retraction_graph)
    by_id = await retraction_graph.retract(str(second), "a slip")
    assert await _retraction_reasons(retraction_graph) == {second: "a slip"}
    by_url = await retraction_graph.retract(OLD, "a liar")
    assert await _retraction_reasons(retraction_graph) == {first: "a liar", second: "a slip"}
    await retraction_graph.restore(by_id)
    assert await _retraction_reasons(retraction_graph) == {first: "a liar", second: "a liar"}
    await retraction_graph.restore(by_url)
    assert await _retraction_reasons(retraction_graph) == {}


async def test_a_version_stored_later_needs_another_retraction(
    retraction_graph: RetractionGraph,
) -> None:
    await _add_versions(retraction_graph)
    first_id = await retraction_graph.retract(OLD)
    async with retraction_graph.agent_graph.database.transaction() as session:
        third = await make_source(session, retraction_graph.agent_graph.scope, OLD, "Third.", day=3)
    assert third not in await _retraction_reasons(retraction_graph)
    second_id = await retraction_graph.retract(OLD)
    assert second_id != first_id
    assert len(await _retraction_reasons(retraction_graph)) == 3
    assert await retraction_graph.retract(OLD) in {first_id, second_id}


async def test_an_unknown_page_cannot_be_retracted(
    retraction_graph: RetractionGraph, stranger: AgentGraph
) -> None:
    source = (await _add_versions(retraction_graph))[0]
    async with retraction_graph.agent_graph.database.transaction() as session:
        for scope, reference in (
            (retraction_graph.agent_graph.scope, "https://nowhere.example"),
            (retraction_graph.agent_graph.scope, str(uuid4())),
            (stranger.scope, OLD),
            (stranger.scope, str(source)),
        ):
            with pytest.raises(retractions.NoSuchSourceError):
                await retractions.retract_source(session, scope, reference, "because")
        assert (await session.scalars(select(Retraction))).all() == []


async def test_another_owner_cannot_restore_a_page(
    retraction_graph: RetractionGraph, stranger: AgentGraph
) -> None:
    await _add_versions(retraction_graph)
    retraction_id = await retraction_graph.retract(OLD)
    async with retraction_graph.agent_graph.database.transaction() as session:
        assert not await retractions.restore_source(session, stranger.scope, retraction_id)
