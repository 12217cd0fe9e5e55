"""Vectors in exports, in concurrent steps and in `vigil doctor`."""

import asyncio

import psycopg

from cli import doctor
from cli.doctor import Verdict
from shared.runtime.settings import Settings
from tests.support.embeddings.seeker import EMBEDDER, Seeker, fill
from tests.support.graph.graph_with_evidence import prove
from tests.support.graph.transfer import exported, imported
from tests.support.graph.world import World
from tests.support.sandbox_control import Sandbox


async def test_an_export_has_no_vectors_and_imported_nodes_are_embedded(
    seeker: Seeker, sandbox_control: Sandbox
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
    await (await Seeker.of(world, sandbox_control, seeker.settings)).embed()
    assert await seeker.vectors() == 2 * before > 0


async def test_concurrent_steps_can_embed_the_same_nodes(
    seeker: Seeker,
) -> None:
    await fill(seeker.world)
    for number in range(30):
        await seeker.world.node(f"Land {number}")
    steps = [await seeker.next_step() for _ in range(4)]
    await asyncio.gather(*(step.embed() for step in steps))
    assert await seeker.vectors() == 32
    assert all(call.answered_at for call in await seeker.calls())


def test_doctor_says_whether_embedding_search_is_on(database_url: str) -> None:
    off = doctor.check_embedding_search(database_url, None)
    assert (off.verdict, off.message) == (Verdict.NOTE, "is off")
    assert doctor.check_embedding_search(database_url, "any-model").verdict == Verdict.GOOD
    settings = Settings(embedding_model="text-embedding-3-small")
    assert list(doctor.check_embedding_price(settings, settings.embedding_model)) == []
    assert list(doctor.check_embedding_price(settings, None)) == []
    [unlisted] = doctor.check_embedding_price(settings, "any-model")
    assert (unlisted.verdict, unlisted.name) == (Verdict.NOTE, "price of any-model")
    assert "$5.00" in unlisted.message
    assert "VIGIL_PRICES" in unlisted.fix
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop extension vector cascade")
    missing = doctor.check_embedding_search(database_url, "any-model")
    assert missing.verdict == Verdict.BAD
    assert "no pgvector 0.8 or later" in missing.message
    assert "vigil migrate" in missing.fix
