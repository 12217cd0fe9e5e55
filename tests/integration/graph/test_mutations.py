"""Verification detects every random mutation, and reports nothing that is intact."""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from datetime import date, timedelta
from random import Random
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import Range

from shared.database.tables import CallDay, Evidence, PrunedIterations, Source
from shared.database.transaction import Transaction
from shared.enums import CallKind
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import (
    MAX_PAGE_ROWS,
    check_page,
    verify_conclusion,
    walk_chain,
)
from tests.support.graph.agent_graph import PAGE, AgentGraph
from tests.support.graph.duplicates import merge_nodes
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph, prove
from tests.support.graph.mutations import MUTATIONS, Mutation, name_of
from tests.support.graph.page_evidence import said
from tests.support.graph.random_rows import Chance
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.row_mutations import COVERED, JOURNAL, NoRowError, mutate, row_mutations
from tests.support.graph.transfer import exported, imported
from tests.support.graph.verification import COUNTRIES, breaks, grow
from tests.support.graph.walking import Walk
from tests.support.marks import slow
from tests.support.seeds import repeatable

ROUNDS: Final = [1, *slow(12)]
"""Rounds of one mutation of each kind; `make test-mutations` makes more than six thousand mutations."""
LEAST_STEPS: Final = 40
MOST_STEPS: Final = 400


async def load_chain(evidence_graph: EvidenceGraph, conclusion: str) -> set[UUID]:
    """The conclusion and all that it depends on, directly or indirectly."""
    async with evidence_graph.agent_graph.database.snapshot() as session:
        chain = await walk_chain(session, evidence_graph.scope, evidence_graph.nodes[conclusion])
    rests_on = chain.rests_on()
    return set(rests_on).union(*rests_on.values())


async def is_detected(
    evidence_graph: EvidenceGraph,
    mutation: Mutation,
    random: Random,
    chain: Collection[UUID],
    advice: UUID,
) -> bool:
    """By the full check, and by the chain check if the advice depends on the row. Rolled back afterwards."""
    async with evidence_graph.agent_graph.database.transaction() as session:
        changed_id = await mutation(Chance(session, random, evidence_graph.scope.agent_id))
        faults = await breaks(session, evidence_graph.scope)
        if changed_id in chain:
            report = await verify_conclusion(session, evidence_graph.scope.owner_id, advice)
            assert report is None or not report.holds, (
                f"{name_of(mutation)}: the advice still holds"
            )
        await session.rollback()
        return bool(faults)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_every_mutation_is_detected_and_nothing_else(
    agent_graph: AgentGraph, seed: int, seeds_wanted: int | None, rounds: int
) -> None:
    random = Random(seed)
    with repeatable(seed):
        evidence_graph = await prove(agent_graph)
        await grow(evidence_graph, random)
        chain, advice = await load_chain(evidence_graph, "Sell"), evidence_graph.nodes["Sell"]
        assert len(chain) > 10
        applied, detected = Counter[str](), Counter[str]()
        for number in range(seeds_wanted or rounds):
            async with agent_graph.database.snapshot() as session:
                assert await breaks(session, evidence_graph.scope) == [], (
                    f"intact, after {number} rounds"
                )
            for mutation in MUTATIONS:
                applied[name_of(mutation)] += 1
                detected[name_of(mutation)] += await is_detected(
                    evidence_graph, mutation, random, chain, advice
                )
        undetected = {
            name: f"{detected[name]} of {applied[name]}"
            for name in applied
            if detected[name] < applied[name]
        }
        assert not undetected
        print(f"{detected.total()} of {applied.total()} mutations found, of {len(applied)} kinds")


async def note_pruned(agent_graph: AgentGraph) -> None:
    """As if the scheduler had deleted the first iterations."""
    async with agent_graph.database.transaction() as session:
        of_agent = agent_graph.scope.agent_id
        await session.insert(
            PrunedIterations, agent_id=of_agent, numbers=[Range(1, 4)], transcripts=[], calls=9
        )
        counts = {column.name: 2 for column in CallDay.__table__.columns if not column.primary_key}
        for phase in ("observer", "graph_construction"):
            key = {"day": date(2026, 1, 1), "kind": CallKind.LLM, "phase": phase, "model": "small"}
            await session.insert(CallDay, agent_id=of_agent, **key, **counts)


async def walk_until_all_tables_have_rows(agent_graph: AgentGraph, random: Random) -> None:
    await note_pruned(agent_graph)
    walk = Walk(agent_graph, random)
    await walk.begin()
    for step in range(MOST_STEPS):
        await walk.step()
        if step >= LEAST_STEPS and await has_rows_everywhere(agent_graph):
            return
    raise AssertionError("the walk leaves a table empty")


async def has_rows_everywhere(agent_graph: AgentGraph) -> bool:
    async with agent_graph.database.snapshot() as session:
        counts = [
            await session.scalar(select(func.count()).select_from(table)) for table in COVERED
        ]
        counts.append(await session.scalar(select(func.count(Evidence.edge_id))))
    return all(counts)


async def has_faults(session: Transaction, scope: GraphScope) -> bool:
    """Whether there is a fault other than that a conclusion rests on retracted pages only."""
    cursor: str | None = None
    while True:
        page = await check_page(session, scope, cursor=cursor, rows=MAX_PAGE_ROWS)
        if any(fault.broken != "retracted" for fault in page.breaks):
            return True
        cursor = page.next
        if cursor is None:
            return False


@pytest.mark.parametrize(("rounds", "share"), [(1, 0.25), *slow((20, 1.0))])
async def test_every_change_of_any_row_is_detected(
    agent_graph: AgentGraph, seed: int, seeds_wanted: int | None, rounds: int, share: float
) -> None:
    """Of every column of every table of a graph, and of its journal; rows that are added, and rows that are deleted.

    The short form tries a quarter of them, others each time.
    """
    random = Random(seed)
    with repeatable(seed):
        await walk_until_all_tables_have_rows(agent_graph, random)
        evidence_graph = EvidenceGraph(agent_graph)
        copy = await imported(evidence_graph, await exported(evidence_graph))
        every = row_mutations([*COVERED, *JOURNAL])
        mutations = every if seeds_wanted else random.sample(every, round(len(every) * share))
        applied, undetected = Counter[str](), Counter[str]()
        for number in range(seeds_wanted or rounds):
            scope = copy if number % 3 == 2 else agent_graph.scope
            async with agent_graph.database.transaction() as session:
                assert not await has_faults(session, scope), f"intact, after {number} rounds"
                for mutation in mutations:
                    with suppress(NoRowError):
                        await mutate(session, random, scope.agent_id, mutation)
                        applied[str(mutation)] += 1
                        undetected[str(mutation)] += not await has_faults(session, scope)
                    await session.rollback()
        assert not +undetected, f"of {applied.total()}"
        assert applied.keys() == set(map(str, mutations))
        print(f"all of {applied.total()} changes of rows found, of {len(applied)} kinds")


@pytest.mark.parametrize("rounds", [10, *slow(30)])
async def test_legitimate_changes_cause_no_faults(
    agent_graph: AgentGraph, seed: int, rounds: int
) -> None:
    """After each new page, superseded value, retraction and restoration."""
    random = Random(seed)
    with repeatable(seed):
        evidence_graph = await prove(agent_graph)
        await grow(evidence_graph, random)
        urls = [url for url in evidence_graph.sources if url.startswith("https://d")]
        retracted_urls = set[str]()
        for number in range(rounds):
            url = random.choice(urls)
            if random.random() < 0.5:
                await evidence_graph.retract(url, undo=url in retracted_urls)
                retracted_urls ^= {url}
            else:
                name, people = random.choice(COUNTRIES), random.randrange(10**6)
                page_url = f"https://f.example/{number}"
                await evidence_graph.page(page_url, f"{name} has {people} people.")
                moment = FETCHED + timedelta(days=random.randrange(-400, 400))
                claims = {"population": people}
                await evidence_graph.says(
                    page_url, f"{name} has {people}", name, claims, valid_from=moment
                )
            async with agent_graph.database.snapshot() as session:
                faults = await breaks(session, evidence_graph.scope)
            assert {fault.broken for fault in faults} <= {"retracted"}, f"round {number}: {faults}"
        for url in retracted_urls:
            await evidence_graph.retract(url, undo=True)
        async with agent_graph.database.snapshot() as session:
            assert await breaks(session, evidence_graph.scope) == []


async def test_a_mutation_is_still_detected_after_later_writes_to_its_element(
    agent_graph: AgentGraph,
) -> None:
    """A write seals an element from its previously sealed content, not from its tampered content."""
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    await said(agent_graph, "https://x", "Ghana lies in Africa.", node=ghana)
    await said(agent_graph, "https://x", "Ghana lies in Africa.", edge=border)
    async with agent_graph.database.transaction() as session:
        of_x = select(Source.id).where(Source.url == "https://x")
        await session.execute(delete(Evidence).where(Evidence.source_id.in_(of_x)))
    await agent_graph.node("Ghana", capital="Accra")
    await agent_graph.edge(ghana, togo)
    retraction_graph = RetractionGraph(agent_graph)
    await retraction_graph.restore(await retraction_graph.retract(PAGE["url"]))
    async with agent_graph.database.snapshot() as session:
        faults = {fault.id: fault.broken for fault in await breaks(session, agent_graph.scope)}
    assert faults == {ghana: "seal", border: "seal"}


async def test_a_changed_claim_is_detected_after_a_merge(agent_graph: AgentGraph) -> None:
    kept_id, merged_id = await agent_graph.node("Ghana"), await agent_graph.node("Gold Coast")
    async with agent_graph.database.transaction() as session:
        claims = {"summary": "A kingdom."}
        of_gone = update(Evidence).where(Evidence.node_id == merged_id)
        await session.execute(of_gone.values(claims=claims))
    await merge_nodes(agent_graph, kept_id, merged_id)
    async with agent_graph.database.snapshot() as session:
        assert "seal" in {fault.broken for fault in await breaks(session, agent_graph.scope)}
