"""Vectors are paid for once and within the budget, and nothing fails without them."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import select, text

from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import ResumableCall
from shared.database import migrate
from shared.database.tables import Agent, EmbeddingSweep, InboxItem, NodeEmbedding
from shared.database.tables.graph import DIMENSIONS
from shared.enums import ANALYSIS_TYPE
from shared.failpoints import Failpoint
from shared.graph.retrieval import embedding_backlog
from shared.graph.retrieval.embedding_backlog import MAX_BATCH_TEXTS, MAX_SWEEP_NODES
from shared.llm.provider import Embedded, Embedder
from tests.support.embeddings.embedding_case import QUESTION, EmbeddingCase, fill
from tests.support.sandbox_control import Sandbox
from tests.support.spending import Spender, ledger_faults


async def test_only_changed_nodes_are_embedded_again(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    maker = await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    await (await embedding_case.next_step()).embed(maker)
    assert sandbox_control.billed()["embedding"] == 1, "no node had changed"
    before = await _vector(embedding_case, maker)
    await embedding_case.agent_graph.touch(maker, properties={"summary": "A maker of biscuits."})
    last = await embedding_case.next_step()
    await last.embed(maker)
    assert await _vector(embedding_case, maker) != before
    [_, call] = await embedding_case.calls()
    assert call.request == {"embeds": 1}


async def test_a_step_embeds_its_own_nodes_and_only_a_sweep_embeds_others(
    embedding_case: EmbeddingCase,
) -> None:
    maker = await fill(embedding_case.agent_graph)
    finding = await embedding_case.agent_graph.unproven("A finding", ANALYSIS_TYPE)
    await embedding_case.embed(maker, sweeps=False)
    assert await embedding_case.embedded() == {maker}
    await (await embedding_case.next_step()).embed(sweeps=True)
    assert len(await embedding_case.embedded()) == 3
    assert finding in await embedding_case.embedded()


async def test_a_large_backlog_is_embedded_over_several_steps_and_no_node_is_missed(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    count = MAX_SWEEP_NODES + 10
    async with embedding_case.agent_graph.database.transaction() as session:
        await session.execute(
            text(
                "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
                " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}', '2020-01-01T00:00:00Z'"
                " from generate_series(1, :many) n"
            ),
            {"agent": embedding_case.agent.id, "many": count},
        )
    await embedding_case.embed()
    assert (await embedding_case.vectors(), sandbox_control.billed()["embedding"]) == (
        MAX_SWEEP_NODES,
        MAX_SWEEP_NODES // MAX_BATCH_TEXTS,
    )
    await (await embedding_case.next_step()).embed()
    assert await embedding_case.vectors() == count
    batch_sizes = [call.request["embeds"] for call in await embedding_case.calls()]
    assert batch_sizes == [*[MAX_BATCH_TEXTS] * (MAX_SWEEP_NODES // MAX_BATCH_TEXTS), 10]


async def test_another_model_embeds_all_nodes_again(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    other = embedding_case.settings.model_copy(update={"embedding_model": "sandbox-other"})
    again = EmbeddingCase(
        embedding_case.agent_graph,
        sandbox_control,
        other,
        embedding_case.agent,
        (await embedding_case.next_step()).lease,
    )
    assert await again.names() == [], "vectors of two models are not compared"
    await again.embed()
    assert await EmbeddingCase(
        embedding_case.agent_graph,
        sandbox_control,
        other,
        embedding_case.agent,
        (await embedding_case.next_step()).lease,
    ).names() == ["Volta"]


async def test_a_failed_embedding_is_tried_once_a_run_and_made_up_for_later(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._log_embedding_error", errors.append)
    await fill(embedding_case.agent_graph)
    sandbox_control.faults({"kind": "status", "status": 500, "path": "/embeddings", "always": True})
    await embedding_case.embed()
    assert await embedding_case.embedded() == set()
    [error] = errors
    assert "answered 500" in str(error)
    answers = await (await embedding_case.next_step()).ask("Volta", QUESTION)
    assert [[node["name"] for node in answer["nodes"]] for answer in answers] == [["Volta"], []]
    sandbox_control.reset()
    await (await embedding_case.next_step()).embed()
    assert await (await embedding_case.next_step()).names() == ["Volta"]


async def test_an_unexpected_error_of_one_call_loses_no_other_response(
    embedding_case: EmbeddingCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering, embed = asyncio.Event(), Embedder.embed

    async def break_one(
        self: Embedder, request: EmbeddingRequest, in_flight: ResumableCall
    ) -> Embedded:
        answer = await embed(self, request, in_flight)
        if request.texts == ("broken",):
            asyncio.get_running_loop().call_later(0.2, answering.set)
            raise RuntimeError("no such answer was thought of")
        await answering.wait()
        return answer

    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    monkeypatch.setattr(Embedder, "embed", break_one)
    with pytest.raises(RuntimeError, match="thought of"):
        await embedding_case.ask("broken", QUESTION)
    assert len([call for call in await embedding_case.calls() if call.answered_at is None]) == 1


async def test_a_vector_of_the_wrong_length_is_refused_with_an_explanation(
    embedding_case: EmbeddingCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._log_embedding_error", errors.append)
    monkeypatch.setattr("shared.llm.provider.DIMENSIONS", DIMENSIONS + 1)
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    assert await embedding_case.embedded() == set()
    assert "Set VIGIL_EMBEDDING_MODEL to a model" in str(errors[0])


@pytest.mark.parametrize("honors_keys", [True, False])
async def test_a_worker_killed_between_response_and_commit_costs_at_most_one_call(
    embedding_case: EmbeddingCase,
    sandbox_control: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    *,
    honors_keys: bool,
) -> None:
    if honors_keys:
        sandbox_control.heed_keys()
    await fill(embedding_case.agent_graph)
    with monkeypatch.context() as patch:
        patch.setattr("shared.llm.paid_calls.failpoint", _kill_after_response)
        with pytest.raises(_KilledError):
            await embedding_case.embed()
    assert (await embedding_case.vectors(), sandbox_control.billed()["embedding"]) == (0, 1)
    await embedding_case.embed()
    assert (await embedding_case.vectors(), len(await embedding_case.calls())) == (2, 1)
    assert sandbox_control.billed()["embedding"] == (1 if honors_keys else 2)


async def test_a_response_is_committed_with_its_vectors_and_never_requested_again(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(embedding_case.agent_graph)
    with monkeypatch.context() as patch:
        patch.setattr(embedding_backlog.Sweep, "_store_position", _kill)
        with pytest.raises(_KilledError):
            await embedding_case.embed()
    [call] = await embedding_case.calls()
    assert (await embedding_case.vectors(), call.answered_at) == (0, None)
    await embedding_case.embed()
    billed = sandbox_control.billed()["embedding"]
    await embedding_case.embed()
    assert sandbox_control.billed()["embedding"] == billed
    [call] = await embedding_case.calls()
    assert (await embedding_case.vectors(), call.answered_at is not None) == (2, True)


async def test_an_embedding_call_is_reserved_settled_and_priced(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    [call] = await embedding_case.calls()
    assert call.cost_usd == sandbox_control.billed_usd() > 0
    assert (call.attempts, call.reserved_on, call.output_tokens) == (1, None, 0)
    assert await ledger_faults(embedding_case.agent_graph.database) == []


async def test_at_the_cap_no_embedding_is_sent_and_the_step_continues(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await fill(embedding_case.agent_graph)
    spender = Spender(
        embedding_case.agent_graph.database, embedding_case.agent, embedding_case.lease
    )
    run = embedding_case.run()
    await run.begin()
    await spender.cap(dollars="0.0000001")
    await embedding_case.embed()
    assert sandbox_control.billed()["embedding"] == 0
    [call] = await embedding_case.calls()
    assert (call.attempts, call.answered_at) == (0, None)
    assert await ledger_faults(embedding_case.agent_graph.database) == []
    async with embedding_case.agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, embedding_case.agent.id)
        notices = (await session.scalars(select(InboxItem))).all()
    assert (agent.suspended_until, notices) == (None, []), "the step continues without embeddings"


async def test_nothing_is_embedded_until_the_server_has_pgvector(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, database_url: str
) -> None:
    await fill(embedding_case.agent_graph)
    async with embedding_case.agent_graph.database.transaction() as session:
        await session.execute(text("drop extension vector cascade"))
    await embedding_case.embed()
    assert await (await embedding_case.next_step()).names() == []
    assert sandbox_control.billed()["embedding"] == 0
    migrate.upgrade(database_url)
    await (await embedding_case.next_step()).embed()
    assert await (await embedding_case.next_step()).names() == ["Volta"]


async def test_vectors_and_sweep_state_are_deleted_with_the_agent(
    embedding_case: EmbeddingCase,
) -> None:
    await fill(embedding_case.agent_graph)
    await embedding_case.embed()
    async with embedding_case.agent_graph.database.transaction() as session:
        await session.execute(
            text("delete from agents where id = :agent"), {"agent": embedding_case.agent.id}
        )
    async with embedding_case.agent_graph.database.transaction() as session:
        for table in (NodeEmbedding, EmbeddingSweep):
            assert (await session.scalars(select(table))).all() == []


class _KilledError(Exception):
    """Stands for the end of the process."""


def _kill_after_response(point: Failpoint) -> None:
    if point is Failpoint.CALL_ANSWERED:
        raise _KilledError


async def _kill(*_: object) -> None:
    raise _KilledError


async def _vector(embedding_case: EmbeddingCase, node_id: UUID) -> list[float]:
    async with embedding_case.agent_graph.database.transaction() as session:
        return (await session.get_one(NodeEmbedding, node_id)).embedding
