"""Vectors within a researcher's step, in exports, in concurrent steps, in `vigil doctor`, and without pgvector."""

import asyncio

import psycopg
import pytest

from cli import doctor
from cli.findings import Verdict
from services.researcher.handler import Research
from shared.database import migrate, pgvector
from shared.database.tables import Step
from shared.runtime.providers import create_search_client, embedding_search_settings
from shared.runtime.settings import Settings
from shared.workflow.iterations import StepRow
from tests.support.embeddings.embedding_case import EMBEDDER, QUESTION, EmbeddingCase, fill
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import prove
from tests.support.graph.transfer import exported, imported
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import change


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


async def test_an_unavailable_embedding_server_is_called_once_a_phase(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._log_embedding_error", errors.append)
    await fill(embedding_case.agent_graph)
    sandbox_control.faults({"kind": "status", "status": 500, "path": "/embeddings", "always": True})
    sandbox_control.script(
        {
            "phase": "knowledge_acquisition",
            "tool_calls": [{"name": "tavilySearch", "arguments": {"query": "Halden batteries"}}],
        },
        {"phase": "knowledge_acquisition", "content": "# Nothing new"},
        {
            "phase": "graph_construction",
            "tool_calls": [{"name": "queryGraph", "arguments": {"text": QUESTION}}],
        },
        {"phase": "graph_construction", "content": "Nothing to write."},
    )
    query = {"objective": "Anything", "reasoning": "", "search_hints": []}
    async with embedding_case.agent_graph.database.transaction() as session:
        step = await session.get_one(Step, embedding_case.lease.step_id)
        step = await change(session, step, input=query, index=0)
        row = StepRow(step.id, step.iteration_id, step.agent_id, step.kind, 0, query, step.status)
    research = Research(
        embedding_case.model,
        create_search_client(embedding_case.settings, embedding_case.agent_graph.database),
        8_000,
        embedding_search=embedding_search_settings(embedding_case.settings),
    )
    await research(embedding_case.lease, row)
    assert len(errors) == 1


WITHOUT_LIBRARY = """
create function refuse() returns event_trigger language plpgsql as $$
begin raise exception 'could not access file "$libdir/vector"' using errcode = '58P01'; end $$;
create event trigger refusing on ddl_command_start when tag in ('CREATE EXTENSION')
execute function refuse()
"""


def test_a_server_whose_pgvector_cannot_be_loaded_is_migrated_without_it(
    database_url: str,
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop extension vector cascade")
        connection.execute(WITHOUT_LIBRARY)
    warning = migrate.upgrade(database_url).problem
    assert warning is not None
    assert "embedding search is off" in warning
    assert "$libdir/vector" in warning


def test_a_long_transaction_does_not_block_a_migration(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgvector, "LOCK_TIMEOUT_SECONDS", 0.2)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"drop index {pgvector.INDEX}")
    with psycopg.connect(database_url) as writer:
        writer.execute("lock table node_embeddings in row exclusive mode")
        warning = migrate.upgrade(database_url).problem
    assert warning is not None
    assert "has no index" in warning
    assert not _has_valid_index(database_url)
    assert migrate.upgrade(database_url).problem is None
    assert _has_valid_index(database_url)


def _has_valid_index(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select exists (select from pg_index where indexrelid = to_regclass(%s) and indisvalid)",
            [pgvector.INDEX],
        ).fetchone()
    return row == (True,)
