"""What else of the house knows of vectors: exports, those who work at the same time, and doctor."""

import asyncio

import psycopg

from cli import doctor
from cli.doctor import Verdict
from shared.runtime.settings import Settings
from tests.support.embeddings.seeker import EMBEDDER, Seeker, fill
from tests.support.graph.proven import prove
from tests.support.graph.transferring import exported, imported
from tests.support.graph.world import World
from tests.support.levers import Sandbox


async def test_an_export_has_no_vectors_and_what_is_imported_gets_its_own(
    seeker: Seeker, levers: Sandbox
) -> None:
    proven = await prove(seeker.world)
    await seeker.embed()
    before = await seeker.vectors()
    file = await exported(proven)
    assert EMBEDDER.encode() not in file
    world = World(
        seeker.world.database, await imported(proven, file, "Copy"), seeker.world.validators
    )
    assert await seeker.vectors() == before
    await (await Seeker.of(world, levers, seeker.settings)).embed()
    assert await seeker.vectors() == 2 * before > 0


async def test_steps_that_see_to_the_same_nodes_do_not_stand_in_each_others_way(
    seeker: Seeker,
) -> None:
    await fill(seeker.world)
    for number in range(30):
        await seeker.world.node(f"Land {number}")
    steps = [await seeker.next_step() for _ in range(4)]
    await asyncio.gather(*(step.embed() for step in steps))
    assert await seeker.vectors() == 32
    assert all(call.answered_at for call in await seeker.calls())


def test_doctor_says_whether_it_is_on(database_url: str) -> None:
    off = doctor.check_embedding_search(database_url, None)
    assert (off.verdict, off.message) == (Verdict.NOTE, "is off")
    assert doctor.check_embedding_search(database_url, "any-model").verdict == Verdict.GOOD
    named = Settings(embedding_model="text-embedding-3-small")
    assert list(doctor.check_embedding_price(named, named.embedding_model)) == []
    assert list(doctor.check_embedding_price(named, None)) == []
    [unlisted] = doctor.check_embedding_price(named, "any-model")
    assert (unlisted.verdict, unlisted.name) == (Verdict.NOTE, "price of any-model")
    assert "$5.00" in unlisted.message
    assert "VIGIL_PRICES" in unlisted.fix
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop extension vector cascade")
    lacking = doctor.check_embedding_search(database_url, "any-model")
    assert lacking.verdict == Verdict.BAD
    assert "no pgvector 0.8 or later" in lacking.message
    assert "vigil migrate" in lacking.fix
