"""Vectors in exports, in concurrent steps and in `vigil doctor`."""

import asyncio

import psycopg

from cli import doctor
from cli.findings import Verdict
from shared.runtime.settings import Settings
from tests.support.embeddings.embedding_case import EMBEDDER, EmbeddingCase, fill
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import prove
from tests.support.graph.transfer import exported, imported
from tests.support.sandbox_control import Sandbox


async def test_an_export_has_no_vectors_and_imported_nodes_are_embedded(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    evidence_graph = await prove(embedding_case.agent_graph)
    await embedding_case.embed()
    before = await embedding_case.vectors()
    file = await exported(evidence_graph)
    assert EMBEDDER.encode() not in file
    agent_graph = AgentGraph(
        embedding_case.agent_graph.database,
        await imported(evidence_graph, file, "Copy"),
        embedding_case.agent_graph.validators,
    )
    assert await embedding_case.vectors() == before
    await (await EmbeddingCase.of(agent_graph, sandbox_control, embedding_case.settings)).embed()
    assert await embedding_case.vectors() == 2 * before > 0


async def test_concurrent_steps_can_embed_the_same_nodes(
    embedding_case: EmbeddingCase,
) -> None:
    await fill(embedding_case.agent_graph)
    for number in range(30):
        await embedding_case.agent_graph.node(f"Land {number}")
    steps = [await embedding_case.next_step() for _ in range(4)]
    await asyncio.gather(*(step.embed() for step in steps))
    assert await embedding_case.vectors() == 32
    assert all(call.answered_at for call in await embedding_case.calls())


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
    assert "does not have pgvector 0.8 or later" in missing.message
    assert "vigil migrate" in missing.fix
