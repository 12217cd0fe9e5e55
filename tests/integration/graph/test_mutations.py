"""Whatever is changed behind Vigil's back is found, and what was not changed never is: at random, and counted."""

from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from random import Random
from typing import Final
from uuid import UUID

from sqlalchemy import delete, select, update

from shared.database.tables import Evidence, Source
from shared.graph.verification.verifier import verify_conclusion, walk_chain
from tests.support.graph.chance import Chance
from tests.support.graph.doubled import merge_nodes
from tests.support.graph.library import Library
from tests.support.graph.mutations import MUTATIONS, Mutation, name_of
from tests.support.graph.proven import FETCHED, Proven, prove
from tests.support.graph.said import said
from tests.support.graph.verifying import COUNTRIES, breaks, grow
from tests.support.graph.world import PAGE, World
from tests.support.seeds import repeatable

ROUNDS: Final = 12
"""Of one mutation of each kind; `make test-mutations` asks for more than a thousand of them."""


async def links_of(proven: Proven, conclusion: str) -> set[UUID]:
    """All that a conclusion rests on, directly or not, and itself."""
    async with proven.world.database.snapshot() as session:
        walked = await walk_chain(session, proven.scope, proven.nodes[conclusion])
    rests_on = walked.rests_on()
    return set(rests_on).union(*rests_on.values())


async def is_found(
    proven: Proven, mutation: Mutation, random: Random, chain: Collection[UUID], advice: UUID
) -> bool:
    """By the sweep, and where the chain of the advice is touched, by following that. Undone afterwards."""
    async with proven.world.database.transaction() as session:
        undone = await session.begin_nested()
        changed = await mutation(Chance(session, random, proven.scope.agent_id))
        session.expunge_all()
        found = await breaks(session, proven.scope)
        if changed in chain:
            told = await verify_conclusion(session, proven.scope.owner_id, advice)
            assert told is None or not told.holds, f"{name_of(mutation)}: the advice still holds"
        await undone.rollback()
        return bool(found)


async def test_every_mutation_is_found_and_nothing_else(
    world: World, seed: int, seeds_wanted: int | None
) -> None:
    random = Random(seed)
    with repeatable(seed):
        proven = await prove(world)
        await grow(proven, random)
        chain, advice = await links_of(proven, "Sell"), proven.nodes["Sell"]
        assert len(chain) > 10
        made, found = Counter[str](), Counter[str]()
        for number in range(seeds_wanted or ROUNDS):
            async with world.database.snapshot() as session:
                assert await breaks(session, proven.scope) == [], f"intact, after {number} rounds"
            for mutation in MUTATIONS:
                made[name_of(mutation)] += 1
                found[name_of(mutation)] += await is_found(proven, mutation, random, chain, advice)
        missed = {
            name: f"{found[name]} of {made[name]}" for name in made if found[name] < made[name]
        }
        assert not missed
        print(f"{found.total()} of {made.total()} mutations found, of {len(made)} kinds")


async def test_nothing_intact_is_refused_whatever_is_done_to_it(world: World, seed: int) -> None:
    """After each new page, superseding, retraction, undoing and conclusion."""
    random = Random(seed)
    with repeatable(seed):
        proven = await prove(world)
        await grow(proven, random)
        urls = [url for url in proven.sources if url.startswith("https://d")]
        retracted = set[str]()
        for number in range(30):
            url = random.choice(urls)
            if random.random() < 0.5:
                await proven.retract(url, undo=url in retracted)
                retracted ^= {url}
            else:
                name, people = random.choice(COUNTRIES), random.randrange(10**6)
                again = f"https://f.example/{number}"
                await proven.page(again, f"{name} has {people} people.")
                moment = FETCHED + timedelta(days=random.randrange(-400, 400))
                claims = {"population": people}
                await proven.says(again, f"{name} has {people}", name, claims, valid_from=moment)
            async with world.database.snapshot() as session:
                found = await breaks(session, proven.scope)
            assert {each.broken for each in found} <= {"retracted"}, f"round {number}: {found}"
        for url in retracted:
            await proven.retract(url, undo=True)
        async with world.database.snapshot() as session:
            assert await breaks(session, proven.scope) == []


async def test_what_was_changed_is_found_still_when_its_thing_was_written_to_since(
    world: World,
) -> None:
    """A thing is sealed anew whenever it is written to: of what it was by its seal, and not of what somebody made it."""
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
        found = {each.id: each.broken for each in await breaks(session, world.scope)}
    assert found == {ghana: "seal", border: "seal"}


async def test_a_claim_that_was_changed_is_found_where_a_merge_has_moved_it(world: World) -> None:
    kept, gone = await world.node("Ghana"), await world.node("Gold Coast")
    async with world.database.transaction() as session:
        claims = {"summary": "A kingdom."}
        of_gone = update(Evidence).where(Evidence.node_id == gone)
        await session.execute(of_gone.values(claims=claims))
    await merge_nodes(world, kept, gone)
    async with world.database.snapshot() as session:
        assert "seal" in {each.broken for each in await breaks(session, world.scope)}
