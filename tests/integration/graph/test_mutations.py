"""Verification detects every random mutation, and reports nothing that is intact."""

from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from random import Random
from typing import Final
from uuid import UUID

from sqlalchemy import delete, select, update

from shared.database.tables import Evidence, Source
from shared.graph.verification.verifier import verify_conclusion, walk_chain
from tests.support.graph.duplicates import merge_nodes
from tests.support.graph.graph_with_evidence import FETCHED, Proven, prove
from tests.support.graph.mutations import MUTATIONS, Mutation, name_of
from tests.support.graph.page_evidence import said
from tests.support.graph.random_rows import Chance
from tests.support.graph.retraction_graph import Library
from tests.support.graph.verifying import COUNTRIES, breaks, grow
from tests.support.graph.world import PAGE, World
from tests.support.seeds import repeatable

ROUNDS: Final = 12
"""Rounds of one mutation of each kind; `make test-mutations` runs more than a thousand."""


async def load_chain(proven: Proven, conclusion: str) -> set[UUID]:
    """The conclusion and all that it depends on, directly or indirectly."""
    async with proven.world.database.snapshot() as session:
        chain = await walk_chain(session, proven.scope, proven.nodes[conclusion])
    rests_on = chain.rests_on()
    return set(rests_on).union(*rests_on.values())


async def is_detected(
    proven: Proven, mutation: Mutation, random: Random, chain: Collection[UUID], advice: UUID
) -> bool:
    """By the full check, and by the chain check if the advice depends on the row. Rolled back afterwards."""
    async with proven.world.database.transaction() as session:
        savepoint = await session.begin_nested()
        changed_id = await mutation(Chance(session, random, proven.scope.agent_id))
        session.expunge_all()
        faults = await breaks(session, proven.scope)
        if changed_id in chain:
            report = await verify_conclusion(session, proven.scope.owner_id, advice)
            assert report is None or not report.holds, (
                f"{name_of(mutation)}: the advice still holds"
            )
        await savepoint.rollback()
        return bool(faults)


async def test_every_mutation_is_detected_and_nothing_else(
    world: World, seed: int, seeds_wanted: int | None
) -> None:
    random = Random(seed)
    with repeatable(seed):
        proven = await prove(world)
        await grow(proven, random)
        chain, advice = await load_chain(proven, "Sell"), proven.nodes["Sell"]
        assert len(chain) > 10
        applied, detected = Counter[str](), Counter[str]()
        for number in range(seeds_wanted or ROUNDS):
            async with world.database.snapshot() as session:
                assert await breaks(session, proven.scope) == [], f"intact, after {number} rounds"
            for mutation in MUTATIONS:
                applied[name_of(mutation)] += 1
                detected[name_of(mutation)] += await is_detected(
                    proven, mutation, random, chain, advice
                )
        undetected = {
            name: f"{detected[name]} of {applied[name]}"
            for name in applied
            if detected[name] < applied[name]
        }
        assert not undetected
        print(f"{detected.total()} of {applied.total()} mutations found, of {len(applied)} kinds")


async def test_legitimate_changes_cause_no_faults(world: World, seed: int) -> None:
    """After each new page, superseded value, retraction and restoration."""
    random = Random(seed)
    with repeatable(seed):
        proven = await prove(world)
        await grow(proven, random)
        urls = [url for url in proven.sources if url.startswith("https://d")]
        retracted_urls = set[str]()
        for number in range(30):
            url = random.choice(urls)
            if random.random() < 0.5:
                await proven.retract(url, undo=url in retracted_urls)
                retracted_urls ^= {url}
            else:
                name, people = random.choice(COUNTRIES), random.randrange(10**6)
                page_url = f"https://f.example/{number}"
                await proven.page(page_url, f"{name} has {people} people.")
                moment = FETCHED + timedelta(days=random.randrange(-400, 400))
                claims = {"population": people}
                await proven.says(page_url, f"{name} has {people}", name, claims, valid_from=moment)
            async with world.database.snapshot() as session:
                faults = await breaks(session, proven.scope)
            assert {fault.broken for fault in faults} <= {"retracted"}, f"round {number}: {faults}"
        for url in retracted_urls:
            await proven.retract(url, undo=True)
        async with world.database.snapshot() as session:
            assert await breaks(session, proven.scope) == []


async def test_a_mutation_is_still_detected_after_later_writes_to_its_element(
    world: World,
) -> None:
    """A write seals an element from its previously sealed content, not from its tampered content."""
    ghana, togo = await world.node("Ghana"), await world.node("Togo")
    border = await world.edge(ghana, togo)
    await said(world, "https://x", "Ghana lies in Africa.", node=ghana)
    await said(world, "https://x", "Ghana lies in Africa.", edge=border)
    async with world.database.transaction() as session:
        of_x = select(Source.id).where(Source.url == "https://x")
        await session.execute(delete(Evidence).where(Evidence.source_id.in_(of_x)))
    await world.node("Ghana", capital="Accra")
    await world.edge(ghana, togo)
    library = Library(world)
    await library.restore(await library.retract(PAGE["url"]))
    async with world.database.snapshot() as session:
        faults = {fault.id: fault.broken for fault in await breaks(session, world.scope)}
    assert faults == {ghana: "seal", border: "seal"}


async def test_a_changed_claim_is_detected_after_a_merge(world: World) -> None:
    kept_id, merged_id = await world.node("Ghana"), await world.node("Gold Coast")
    async with world.database.transaction() as session:
        claims = {"summary": "A kingdom."}
        of_gone = update(Evidence).where(Evidence.node_id == merged_id)
        await session.execute(of_gone.values(claims=claims))
    await merge_nodes(world, kept_id, merged_id)
    async with world.database.snapshot() as session:
        assert "seal" in {fault.broken for fault in await breaks(session, world.scope)}
