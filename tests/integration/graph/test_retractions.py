"""Retracting a page, also interrupted, concurrently and in random order, and restoring it."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import permutations
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, text

from services.api.resources.sources import model as provenance
from shared.database.engine import Database
from shared.database.tables import (
    Citation,
    Evidence,
    GraphEdge,
    GraphNode,
    RetractedSource,
    Retraction,
    Source,
)
from shared.enums import StepKind
from shared.graph import context
from shared.graph.provenance.claims import Claim, project_properties
from shared.graph.retraction import doubts, retractions
from shared.graph.retraction.doubts import invalidated_by
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.descriptions import describe_nodes
from tests.support.graph.evidence_rows import make_source
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.marks import slow
from tests.support.sql_capture import captured_statements
from tests.support.waiting import wait_until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))


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
    again = await retraction_graph.ask_bar("old.example")
    await retraction_graph.work_off()
    # The page stays retracted with its site, and its conclusion in doubt.
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


async def test_a_url_and_an_id_retract_all_versions(retraction_graph: RetractionGraph) -> None:
    first, second = await _add_versions(retraction_graph)
    by_id = await retraction_graph.retract(str(second), "a slip")
    assert await _retraction_reasons(retraction_graph) == {first: "a slip", second: "a slip"}
    assert await retraction_graph.retract(OLD, "a liar") == by_id
    of_site = await retraction_graph.ask_bar("old.example", "a liar")
    assert await _retraction_reasons(retraction_graph) == {first: "a slip", second: "a slip"}
    await retraction_graph.restore(by_id)
    assert await _retraction_reasons(retraction_graph) == {first: "a liar", second: "a liar"}
    await retraction_graph.restore(of_site)
    assert await _retraction_reasons(retraction_graph) == {}


async def test_a_version_that_an_earlier_release_stored_later_needs_another_retraction(
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


FALSE, TRUE = "https://false.example", "https://true.example"
NODES: Final = 24
WRITERS: Final = 4
ROUNDS: Final = [3, *slow(12)]


async def _add_nodes(retraction_graph: RetractionGraph, count: int = NODES) -> list[UUID]:
    """Add nodes: the false page supports all, the true page every second one."""
    node_ids = []
    for number in range(count):
        claims_by_url = {TRUE: {"capital": "Accra"}} if number % 2 else {}
        node_ids.append(
            await retraction_graph.node(
                f"Node {number}", {**claims_by_url, FALSE: {"capital": "Atlantis"}}
            )
        )
    return node_ids


async def _is_done(retraction_graph: RetractionGraph) -> bool:
    async with retraction_graph.agent_graph.database.transaction() as session:
        due = await session.scalar(
            select(func.count()).select_from(Retraction).where(Retraction.due_at.is_not(None))
        )
        return not due


async def _count_remaining(retraction_graph: RetractionGraph, retraction_id: UUID) -> int:
    scope = retraction_graph.agent_graph.scope
    async with retraction_graph.agent_graph.database.transaction() as session:
        retraction = await provenance.get_retraction(
            agent_access(session, scope.owner_id, scope.agent_id), retraction_id
        )
        return retraction.left


async def _count_deadlocks(retraction_graph: RetractionGraph) -> int:
    async with retraction_graph.agent_graph.database.transaction() as session:
        # Backends report their statistics when idle; this call forces it.
        await session.execute(text("select pg_stat_force_next_flush()"))
        statement = text(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
        return int((await session.execute(statement)).scalar_one())


async def test_propagation_survives_repeated_kills(
    retraction_graph: RetractionGraph, seed: int
) -> None:
    chance = Random(seed)
    nodes = await _add_nodes(retraction_graph)
    await retraction_graph.analysis("On them", *(f"[node:{node}]" for node in nodes))
    before = await retraction_graph.state()
    retraction_id = await retraction_graph.ask_retract(FALSE)
    kills = await _propagate_despite_kills(retraction_graph, chance)
    assert kills
    after = await retraction_graph.state()
    assert after.unsupported == frozenset(nodes[::2])
    assert {element for _, element, _ in after.doubted} == set(nodes)
    assert len(await retraction_graph.notices()) == 1
    await retraction_graph.ask_restore(retraction_id)
    await _propagate_despite_kills(retraction_graph, chance)
    assert await retraction_graph.state() == before


async def _propagate_despite_kills(retraction_graph: RetractionGraph, chance: Random) -> int:
    kills = 0
    while not await _is_done(retraction_graph):
        work = asyncio.create_task(retraction_graph.work_off(at_once=1))
        await asyncio.wait({work}, timeout=chance.uniform(0.001, 0.3))
        kills += not work.done()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    return kills


async def test_restoring_during_propagation_restores_the_previous_state(
    retraction_graph: RetractionGraph,
) -> None:
    nodes = await _add_nodes(retraction_graph)
    await retraction_graph.analysis("On them", f"[node:{nodes[0]}]", f"[node:{nodes[1]}]")
    before = await retraction_graph.state()
    retraction_id = await retraction_graph.ask_retract(FALSE)
    assert await _count_remaining(retraction_graph, retraction_id) == NODES
    work = asyncio.create_task(retraction_graph.work_off(at_once=1))
    await wait_until(lambda: _has_begun(retraction_graph), what="the first nodes to be flagged")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert 0 < await _count_remaining(retraction_graph, retraction_id) < NODES
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.state() == before
    assert await retraction_graph.notices() == []


async def _has_begun(retraction_graph: RetractionGraph) -> bool:
    return bool((await retraction_graph.state()).unsupported)


async def test_two_workers_and_two_retractions_at_once(
    retraction_graph: RetractionGraph, other_replica: Database
) -> None:
    nodes = await _add_nodes(retraction_graph)
    before = await retraction_graph.state()
    retraction_ids = [await retraction_graph.ask_retract(url) for url in (FALSE, TRUE)]
    await asyncio.gather(
        retraction_graph.work_off(at_once=3), propagate_retractions(other_replica, at_once=3)
    )
    await retraction_graph.work_off()
    assert (await retraction_graph.state()).unsupported == frozenset(nodes)
    await asyncio.gather(*map(retraction_graph.ask_restore, retraction_ids))
    await asyncio.gather(
        retraction_graph.work_off(at_once=3), propagate_retractions(other_replica, at_once=3)
    )
    await retraction_graph.work_off()
    assert await retraction_graph.state() == before
    assert await _count_deadlocks(retraction_graph) == 0


async def test_concurrent_retractions_of_one_page_are_one(
    retraction_graph: RetractionGraph,
) -> None:
    await _add_nodes(retraction_graph, 1)
    retraction_ids = await asyncio.gather(*(retraction_graph.ask_retract(FALSE) for _ in range(8)))
    assert len(set(retraction_ids)) == 1


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_retraction_applies_despite_concurrent_writes(
    retraction_graph: RetractionGraph, other_replica: Database, seed: int, rounds: int
) -> None:
    nodes = await _add_nodes(retraction_graph)
    writers = [
        _write(retraction_graph, nodes, number, rounds, Random(seed + number))
        for number in range(WRITERS)
    ]

    async def retract_and_restore() -> UUID:
        for _ in range(rounds):
            retraction_id = await retraction_graph.ask_retract(FALSE)
            await asyncio.gather(
                retraction_graph.work_off(at_once=7),
                propagate_retractions(other_replica, at_once=7),
            )
            await retraction_graph.restore(retraction_id)
        return await retraction_graph.retract(FALSE)

    retraction_id = (await asyncio.gather(retract_and_restore(), *writers))[0]
    await retraction_graph.work_off()
    for node_id in nodes:
        node = await retraction_graph.get_node(node_id)
        capital = node.properties.get("capital")
        assert capital != "Atlantis"
        assert (node.unsupported_since is not None) == (capital is None)
    await retraction_graph.restore(retraction_id)
    assert (await retraction_graph.state()).unsupported == frozenset()
    assert await _count_deadlocks(retraction_graph) == 0


async def _write(
    retraction_graph: RetractionGraph, nodes: list[UUID], number: int, rounds: int, chance: Random
) -> UUID:
    """Write the claims of two pages to random nodes, as Researchers do that read the pages earlier."""
    for round_ in range(rounds):
        node = chance.choice(nodes)
        for url, capital in ((FALSE, "Atlantis"), (f"https://{number}.example", "Accra")):
            await retraction_graph.says(url, {"capital": capital}, node_id=node, day=10 + round_)
    return nodes[0]


async def test_propagation_waits_for_writers_that_started_earlier(
    retraction_graph: RetractionGraph,
) -> None:
    """The writer checked the source before its retraction, and commits after it."""
    (node,) = await _add_nodes(retraction_graph, 1)
    late = await retraction_graph.node("Late", {})
    async with retraction_graph.agent_graph.database.transaction() as session:
        await retraction_graph.write(session, FALSE, {"capital": "Atlantis"}, node_id=late)
        await retraction_graph.ask_retract(FALSE)
        work = asyncio.create_task(retraction_graph.work_off())
        await wait_until(
            lambda: _is_waiting(retraction_graph), what="the worker to wait for the writer"
        )
    await work
    assert (await retraction_graph.state()).unsupported == {node, late}


async def _is_waiting(retraction_graph: RetractionGraph) -> bool:
    async with retraction_graph.agent_graph.database.transaction() as session:
        statement = text("select count(*) from pg_locks where not granted")
        begun = select(func.count()).where(RetractedSource.through.is_not(None))
        assert not await session.scalar(begun)
        return bool((await session.execute(statement)).scalar_one())


PAGES: Final = [f"https://page-{number}.example" for number in range(5)]
PROPERTIES: Final = ("summary", "capital", "population")
GRAPHS: Final = [0, *slow(*range(1, 6))]
MOVES: Final = 8
_CLAIM_PROBABILITY: Final = 0.4
"""Probability that a page supports an element, and a property of it."""


@pytest.mark.parametrize("number", GRAPHS)
async def test_the_graph_state_follows_from_the_evidence(
    database: Database, seed: int, number: int
) -> None:
    chance = Random(seed + number)
    retraction_graph = RetractionGraph(await make_agent_graph(database))
    await _grow(retraction_graph, chance)
    before = await retraction_graph.state()
    retraction_ids: list[UUID] = []
    for _ in range(MOVES):
        if retraction_ids and chance.random() < 0.5:
            await retraction_graph.ask_restore(
                retraction_ids.pop(chance.randrange(len(retraction_ids)))
            )
        elif (
            retraction_id := await retraction_graph.ask_retract(chance.choice(PAGES))
        ) not in retraction_ids:
            retraction_ids.append(retraction_id)
        if chance.random() < 0.7:
            await retraction_graph.work_off(at_once=chance.randint(1, 5))
            await _assert_state_follows(retraction_graph)
    for retraction_id in chance.sample(retraction_ids, len(retraction_ids)):
        await retraction_graph.ask_restore(retraction_id)
    await retraction_graph.work_off(at_once=chance.randint(1, 5))
    assert await retraction_graph.state() == before


async def _grow(retraction_graph: RetractionGraph, chance: Random) -> None:
    """Add pages, elements that some of them support, and conclusions on those and on one another."""
    nodes = [
        await retraction_graph.node(f"Node {number}", _random_claims(chance)) for number in range(8)
    ]
    for page in PAGES:
        await retraction_graph.says(page, {}, node_id=nodes[0])
    references = [f"[node:{node}]" for node in nodes]
    for source, target in chance.sample(list(permutations(nodes, 2)), 6):
        urls = [page for page in PAGES if chance.random() < _CLAIM_PROBABILITY]
        references.append(f"[edge:{await retraction_graph.edge(source, target, *urls)}]")
    for number in range(6):
        citations = chance.sample(references, chance.randint(1, 3))
        analysis = await retraction_graph.analysis(f"Analysis {number}", *citations)
        references.append(f"[node:{analysis}]")
        if chance.random() < 0.5:
            await retraction_graph.advice(f"Advice {number}", analysis)


def _random_claims(chance: Random) -> dict[str, dict[str, Any]]:
    return {
        page: {
            name: chance.randint(1, 3)
            for name in PROPERTIES
            if chance.random() < _CLAIM_PROBABILITY
        }
        for page in chance.sample(PAGES, len(PAGES))
        if chance.random() < _CLAIM_PROBABILITY
    }


async def _assert_state_follows(retraction_graph: RetractionGraph) -> None:
    """Derive properties, flags and doubts from pages, evidence and citations alone."""
    claims, source_of, retracted_at = await _load_evidence(retraction_graph)
    invalidated = {
        element_id: invalidated_by(element_claims, source_of, retracted_at, datetime.now(UTC))
        for element_id, element_claims in claims.items()
    }
    state = await retraction_graph.state()
    assert state.doubted == {
        (conclusion, element_id, source)
        for element_id, conclusion in await _load_dependencies(retraction_graph)
        for source in invalidated.get(element_id, ())
    }
    async with retraction_graph.agent_graph.database.transaction() as session:
        elements: list[GraphNode | GraphEdge] = [
            *await session.scalars(select(GraphNode)),
            *await session.scalars(select(GraphEdge)),
        ]
    for element in elements:
        element_claims = claims.get(element.id, [])
        if element_claims:
            assert element.properties == project_properties({}, element_claims, datetime.now(UTC))
        alone = bool(element_claims) and all(claim.is_retracted for claim in element_claims)
        assert (element.unsupported_since is not None) == alone


async def _load_evidence(
    retraction_graph: RetractionGraph,
) -> tuple[Mapping[UUID, list[Claim]], Mapping[UUID, UUID], Mapping[UUID, datetime]]:
    claims: defaultdict[UUID, list[Claim]] = defaultdict(list)
    source_of, retraction_times = {}, {}
    async with retraction_graph.agent_graph.database.transaction() as session:
        rows = await session.execute(
            select(Evidence, Source.retracted_at, Source.url).join(
                Source, Source.id == Evidence.source_id
            )
        )
        for row, retracted_at, url in rows:
            is_retracted = retracted_at is not None
            claim = Claim(row.id, row.claims, row.as_of, row.learned_at, is_retracted, url)
            element_id = row.node_id or row.edge_id
            assert element_id is not None
            claims[element_id].append(claim)
            source_of[row.id] = row.source_id
            if retracted_at is not None:
                retraction_times[row.source_id] = retracted_at
    return claims, source_of, retraction_times


async def _load_dependencies(retraction_graph: RetractionGraph) -> set[tuple[UUID, UUID]]:
    """Each element with each conclusion that cites it, directly or indirectly."""
    async with retraction_graph.agent_graph.database.transaction() as session:
        rows = await session.execute(select(Citation.cited_id, Citation.conclusion_id))
        direct = {(row[0], row[1]) for row in rows}
    pairs: set[tuple[UUID, UUID]] = set()
    new_pairs = direct
    while new_pairs:
        pairs |= new_pairs
        new_pairs = {
            (element, above)
            for element, below in pairs
            for cited, above in direct
            if cited == below
        } - pairs
    return pairs
