"""Searching by embeddings, and what a context takes from them."""

import asyncio
import random
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text

from cli import doctor
from cli.findings import Verdict
from services.researcher.handler import Research
from shared.database import migrate, pgvector
from shared.database.engine import Database
from shared.database.tables import Step
from shared.database.tables.graph import DIMENSIONS
from shared.graph.entity_resolution import merge_nodes
from shared.graph.entity_resolution.merge import undo_merge
from shared.graph.retrieval import VectorQuery, node_search
from shared.runtime.providers import create_search_client, embedding_search_settings
from shared.runtime.settings import Settings
from shared.workflow.iterations import StepRow
from tests.support.embeddings.embedding_case import EMBEDDER, MAKER, QUESTION, EmbeddingCase, fill
from tests.support.factories import make_owner
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.graph_with_evidence import prove
from tests.support.graph.transfer import exported, imported
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import change

NODES_PER_AGENT = 600
CLUSTERS = 40
QUESTIONS = 10
MODEL = "any"


@pytest.fixture
async def agent_graphs(database: Database) -> list[AgentGraph]:
    """Agents with equally many vectors each, in the same clusters."""
    agent_graphs = [
        await make_agent_graph(database, name) for name in ("one", "two", "three", "four")
    ]
    chance = random.Random(1)
    centres = [[chance.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(CLUSTERS)]
    for agent_graph in agent_graphs:
        vectors = [_near(chance, chance.choice(centres)) for _ in range(NODES_PER_AGENT)]
        async with database.transaction() as session:
            params = {"agent": agent_graph.scope.agent_id, "model": MODEL}
            await session.execute(
                text(
                    "insert into graph_nodes (id, agent_id, type, name, properties)"
                    " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}'"
                    " from generate_series(1, :many) n"
                ),
                {"agent": agent_graph.scope.agent_id, "many": NODES_PER_AGENT},
            )
            ids = await session.scalars(
                text("select id from graph_nodes where agent_id = :agent order by id"), params
            )
            await session.execute_each(
                text(
                    "insert into node_embeddings (node_id, agent_id, model, text_sha256, embedding)"
                    " values (:node, :agent, :model, '', cast(:meaning as real[]))"
                ),
                [
                    {**params, "node": node_id, "meaning": vector}
                    for node_id, vector in zip(ids, vectors, strict=True)
                ],
            )
    return agent_graphs


async def test_the_index_finds_almost_all_of_an_agents_nearest_nodes_and_no_others(
    agent_graphs: list[AgentGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(2)
    hits = []
    for number in range(QUESTIONS):
        agent_graph = agent_graphs[number % len(agent_graphs)]
        async with agent_graph.database.transaction() as session:
            [vector] = await session.scalars(
                text(
                    "select embedding from node_embeddings where agent_id = :a order by random() limit 1"
                ),
                {"a": agent_graph.scope.agent_id},
            )
        query = VectorQuery(_near(chance, vector), MODEL, 0.0)
        exact = await _nearest(agent_graph, query)
        with monkeypatch.context() as patch:
            patch.setattr(node_search, "MAX_EXACT_VECTORS", 10)
            by_index = await _nearest(agent_graph, query, "enable_sort")
        assert await _owners(agent_graph, by_index) == {agent_graph.scope.agent_id}
        assert [node_id for node_id in by_index if node_id in exact] == [
            node_id for node_id in exact if node_id in by_index
        ], "the nearest first"
        hits.append(len(set(exact[:20]) & set(by_index)))
    assert sum(hits) >= 0.9 * 20 * QUESTIONS, hits


async def test_a_large_graph_is_searched_by_the_index(agent_graphs: list[AgentGraph]) -> None:
    agent_graph = agent_graphs[0]
    async with agent_graph.database.transaction() as session:
        await session.execute(text("analyze node_embeddings"))
        await session.execute(text("set local enable_seqscan = off"))
        await session.execute(text("set local enable_sort = off"))
        plan = await session.scalars(
            text(f"explain {node_search.NEAREST_BY_INDEX_SQL}"),
            {
                **agent_graph.scope.sql_params,
                "vector": [0.1] * DIMENSIONS,
                "model": MODEL,
                "farthest": 0.7,
            },
        )
        assert "node_embeddings_near_idx" in "\n".join(plan)


def _near(chance: random.Random, centre: list[float]) -> list[float]:
    return [value + chance.gauss(0, 0.3) for value in centre]


async def _nearest(agent_graph: AgentGraph, query: VectorQuery, *off: str) -> list[UUID]:
    async with agent_graph.database.transaction() as session:
        for setting in off:
            await session.execute(text(f"set local {setting} = off"))
        return await node_search.nearest_nodes(session, agent_graph.scope, query)


async def _owners(agent_graph: AgentGraph, ids: list[UUID]) -> set[UUID]:
    async with agent_graph.database.transaction() as session:
        agent_ids = await session.scalars(
            text("select agent_id from graph_nodes where id = any(:ids)"), {"ids": ids}
        )
        return set(agent_ids)


async def test_a_node_without_a_matching_word_is_found_by_its_vector(
    embedding_case: EmbeddingCase,
) -> None:
    await fill(embedding_case.agent_graph)
    assert await embedding_case.names() == []
    await embedding_case.embed()
    assert await (await embedding_case.next_step()).names() == ["Volta"]


async def test_without_embeddings_nothing_changes_and_no_call_is_made(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    before = sandbox_control.billed()["embedding"]
    off = (await embedding_case.next_step()).without()
    assert await off.names() == []
    assert await (await off.next_step()).names("Volta") == ["Volta"]
    await off.embed()
    assert sandbox_control.billed()["embedding"] == before == 1
    assert len(await embedding_case.calls()) == 1


async def test_word_matches_come_before_near_vectors(embedding_case: EmbeddingCase) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.agent_graph.node("Electrified Vehicles")
    await embedding_case.agent_graph.node("Electrified Rail", capital="No vehicles at all")
    await embedding_case.embed()
    names = await (await embedding_case.next_step()).names()
    assert names[:2] == ["Electrified Vehicles", "Electrified Rail"]
    assert names[2:] == ["Volta"]


async def test_nearer_nodes_come_first_and_their_number_is_limited(
    embedding_case: EmbeddingCase,
) -> None:
    for number in range(15):
        await embedding_case.agent_graph.node(
            f"Plant {number}", capital="electric vehicle parts and more"
        )
    await embedding_case.agent_graph.node("Nearest", capital="electric vehicles")
    await embedding_case.embed()
    names = await (await embedding_case.next_step()).names()
    assert names[0] == "Nearest"
    assert len(names) == 10


async def test_type_and_time_filters_apply_to_near_nodes(embedding_case: EmbeddingCase) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.agent_graph.node_type("Maker")
    await embedding_case.agent_graph.node("Electra", "Maker", capital=MAKER["capital"])
    await embedding_case.embed()
    later = await embedding_case.next_step()
    assert await later.names(nodeType="Maker") == ["Electra"]
    assert await (await later.next_step()).names(updatedSince="2100-01-01T00:00:00Z") == []


async def test_nodes_of_other_agents_are_never_found(
    embedding_case: EmbeddingCase, stranger: EmbeddingCase
) -> None:
    await fill(stranger.agent_graph)
    await embedding_case.agent_graph.node("Togo")
    await stranger.embed()
    await embedding_case.embed()
    assert await (await embedding_case.next_step()).names() == []
    assert await (await stranger.next_step()).names() == ["Volta"]


async def test_nodes_supported_only_by_retracted_pages_are_not_found(
    embedding_case: EmbeddingCase,
) -> None:
    maker = await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    await embedding_case.agent_graph.touch(maker, unsupported_since="2026-01-01T00:00:00Z")
    assert await (await embedding_case.next_step()).names() == []


async def test_a_merged_node_loses_its_vector_and_gets_one_again_after_undo(
    embedding_case: EmbeddingCase,
) -> None:
    agent_graph = embedding_case.agent_graph
    kept_id, merged_id = await agent_graph.node("Volta Trucks"), await fill(agent_graph)
    await embedding_case.embed()
    made_by = await make_owner(agent_graph.database)
    async with agent_graph.database.transaction() as session:
        merge = await merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One.",
            made_by=made_by,
        )
    assert merge is not None
    assert merged_id not in await embedding_case.embedded()
    async with agent_graph.database.transaction() as session:
        await undo_merge(session, agent_graph.scope, merge.id)
    assert merged_id not in await embedding_case.embedded()
    await (await embedding_case.next_step()).embed()
    assert merged_id in await embedding_case.embedded()


async def test_a_repeated_query_is_not_paid_for_again(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    for _ in range(3):
        embedding_case = await embedding_case.next_step()
        assert await embedding_case.names() == ["Volta"]
    assert sandbox_control.billed()["embedding"] == 2, "the nodes, and the question once"


async def test_the_same_query_twice_in_one_response_is_one_call(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.ask(QUESTION, QUESTION, "something else")
    assert sandbox_control.billed()["embedding"] == 2


@pytest.mark.parametrize("conditions", [{"nodeIds": []}, {"text": "", "nodeIds": []}])
async def test_a_query_without_text_makes_no_embedding_call(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, conditions: dict[str, object]
) -> None:
    maker = await fill(embedding_case.agent_graph)
    arguments = {**conditions, "nodeIds": [str(maker)]} if "text" not in conditions else conditions
    await embedding_case.ask(arguments.pop("text", QUESTION), **arguments)  # type: ignore[arg-type]
    assert sandbox_control.billed()["embedding"] == 0


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
