"""Embedding nodes: the backlog, refusals, kills and costs."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text, update

from shared import derived_events
from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import ResumableCall
from shared.database import migrate
from shared.database.tables import Agent, EmbeddingSweep, InboxItem, Iteration, NodeEmbedding, Step
from shared.database.tables.graph import DIMENSIONS
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.failpoints import DIRECTORY, Failpoint
from shared.graph.retrieval import embedding_backlog
from shared.graph.retrieval.embedding_backlog import MAX_BATCH_TEXTS, MAX_SWEEP_NODES, rewind_sweep
from shared.llm.provider import Embedded, Embedder
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import iterations, steps
from tests.support.embeddings.embedding_case import QUESTION, EmbeddingCase, fill
from tests.support.failpoints import arm
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.spending import Spender, ledger_faults
from tests.support.table_rows import add
from tests.support.waiting import wait_until
from tests.support.warm_processes import start_python

REFUSED = {"kind": "status", "status": 400, "path": "/embeddings", "always": True}


async def test_a_refused_text_prevents_no_other_vector(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await _add_old_nodes(embedding_case, 40)
    sandbox_control.faults({**REFUSED, "contains": "Land 17;"})
    await embedding_case.embed()
    assert await embedding_case.vectors() == 39
    before = len(await embedding_case.calls())
    await (await embedding_case.next_step()).embed()
    assert len(await embedding_case.calls()) == before, (
        "the sweep skips it and does not request it again"
    )


async def test_a_step_embeds_its_own_nodes_even_if_the_sweep_fails(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    own = await embedding_case.agent_graph.node("Volta")
    await _add_old_nodes(embedding_case, 3)
    sandbox_control.faults({**REFUSED, "status": 500, "contains": "Land"})
    await embedding_case.embed(own)
    assert await embedding_case.embedded() == {own}


async def test_a_server_that_refuses_everything_is_asked_a_few_times_and_no_node_is_skipped(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await _add_old_nodes(embedding_case, 40)
    sandbox_control.faults(REFUSED)
    await embedding_case.embed()
    assert len(await embedding_case.calls()) <= 12
    assert await _sweep_position(embedding_case) is None
    sandbox_control.reset()
    await (await embedding_case.next_step()).embed()
    assert await embedding_case.vectors() == 40


async def test_a_refused_text_is_not_skipped_until_another_is_accepted(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox
) -> None:
    await _add_old_nodes(embedding_case, 1)
    sandbox_control.faults({**REFUSED, "contains": "Land 1;"})
    await embedding_case.embed()
    assert await _sweep_position(embedding_case) is None


async def test_only_a_sweeping_step_stores_its_position(embedding_case: EmbeddingCase) -> None:
    own = await embedding_case.agent_graph.node("Volta")
    await embedding_case.embed(own, sweeps=False)
    assert await _sweep_position(embedding_case) is None


@pytest.mark.parametrize("days", [-1, 1])
async def test_a_position_stored_by_another_step_is_kept(
    embedding_case: EmbeddingCase, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    await _add_old_nodes(embedding_case, 1)
    await embedding_case.embed()
    before = await _sweep_position(embedding_case)
    assert before is not None
    await _add_old_nodes(embedding_case, 1, first=2)
    position = before + timedelta(days=days)

    async def store_position() -> None:
        async with embedding_case.agent_graph.database.transaction() as session:
            await session.execute(update(EmbeddingSweep).values(through_at=position))

    _act_during_call(monkeypatch, store_position)
    await (await embedding_case.next_step()).embed()
    assert await embedding_case.vectors() == 2
    assert await _sweep_position(embedding_case) == position


async def test_a_sweep_does_not_skip_nodes_restored_during_it(
    embedding_case: EmbeddingCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first, *_] = await _add_old_nodes(embedding_case, 1)
    await embedding_case.embed()
    before = await _sweep_position(embedding_case)
    assert before is not None
    await _add_old_nodes(embedding_case, 1, first=2)

    async def restore() -> None:
        async with embedding_case.agent_graph.database.transaction() as session:
            await rewind_sweep(session, embedding_case.agent_graph.scope, [first])

    _act_during_call(monkeypatch, restore)
    await (await embedding_case.next_step()).embed()
    position = await _sweep_position(embedding_case)
    assert position is not None
    assert position < before


async def _add_old_nodes(
    embedding_case: EmbeddingCase, count: int, *, first: int = 1
) -> Sequence[UUID]:
    """Adds nodes old enough that no older ones can still be committed."""
    async with embedding_case.agent_graph.database.transaction() as session:
        result = await session.execute(
            text(
                "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
                " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}',"
                " '2020-01-01T00:00:00Z'::timestamptz + n * interval '1 minute'"
                " from generate_series(cast(:first as int), :last) n returning id"
            ),
            {"agent": embedding_case.agent.id, "first": first, "last": first + count - 1},
        )
        return result.scalars().all()


async def _sweep_position(embedding_case: EmbeddingCase) -> datetime | None:
    async with embedding_case.agent_graph.database.transaction() as session:
        position: datetime | None = await session.scalar(select(EmbeddingSweep.through_at))
    return position


def _act_during_call(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]) -> None:
    """Runs `act` after the nodes are read and before their vectors are stored."""
    embed = Embedder.embed

    async def embed_after_act(
        self: Embedder, request: EmbeddingRequest, in_flight: ResumableCall
    ) -> Embedded:
        await act()
        return await embed(self, request, in_flight)

    monkeypatch.setattr(Embedder, "embed", embed_after_act)


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


LLM_CALLS = 4
"""Of the step's two phases. Acquisition makes no search, so one is made for it, and it is asked once more; construction
writes nothing, and is asked once more."""
CALLS_BEFORE = LLM_CALLS + 1
"""With the search that is made on behalf of the model."""
SCRIPT = [
    {"phase": "knowledge_acquisition", "content": "# Nothing new", "times": 2},
    {"phase": "graph_construction", "content": "Nothing to write.", "times": 2},
]


@pytest.mark.parametrize(
    ("point", "honors_keys", "billed"),
    [
        pytest.param(Failpoint.CALL_UNSENT, False, 1, marks=pytest.mark.slow),
        pytest.param(Failpoint.CALL_ANSWERED, False, 2, marks=pytest.mark.slow),
        pytest.param(Failpoint.CALL_ANSWERED, True, 1, marks=pytest.mark.slow),
        (Failpoint.CALL_RECORDED, False, 1),
    ],
)
async def test_a_killed_researcher_costs_at_most_its_call_in_flight(
    embedding_case: EmbeddingCase,
    sandbox_control: Sandbox,
    bus: Bus,
    tmp_path: Path,
    point: Failpoint,
    *,
    honors_keys: bool,
    billed: int,
) -> None:
    await fill(embedding_case.agent_graph)
    if honors_keys:
        sandbox_control.heed_keys()
    sandbox_control.script(*SCRIPT)
    step_id = await _request_query_step(embedding_case, bus)
    arm(tmp_path, point, skip=CALLS_BEFORE)
    changes = {"lease_seconds": 1.0, "resend_after_seconds": 1.0, "model_tool_choice": "never"}
    settings = embedding_case.settings.model_copy(update=changes)
    assert await _researcher(settings, tmp_path) == -signal.SIGKILL
    async with running_services(settings, ["scheduler", "researcher"]):
        await wait_until(
            lambda: _is_completed(embedding_case, step_id), what="the step to be completed"
        )
    assert await embedding_case.vectors() == 2
    [call] = await embedding_case.calls()
    assert call.answered_at is not None
    assert (sandbox_control.billed()["embedding"], sandbox_control.billed()["llm"]) == (
        billed,
        LLM_CALLS,
    )


async def _request_query_step(embedding_case: EmbeddingCase, bus: Bus) -> UUID:
    """Adds a query step to the agent's iteration and publishes its request."""
    step_id = uuid4()
    query = {"objective": "Halden batteries", "reasoning": "", "search_hints": []}
    async with embedding_case.agent_graph.database.transaction() as session:
        iteration = await session.get_one(Iteration, embedding_case.lease.iteration_id)
        step = Step(
            id=step_id,
            agent_id=embedding_case.agent.id,
            iteration_id=iteration.id,
            kind=StepKind.QUERY,
            index=0,
            input=query,
            status=StepStatus.PENDING,
            first_requested_at=await iterations.database_time(session),
        )
        await add(session, step)
        event = derived_events.later_step_event(await steps.get_step(session, step_id))
    await bus.publish(event)
    return step_id


async def _is_completed(embedding_case: EmbeddingCase, step_id: UUID) -> bool:
    async with embedding_case.agent_graph.database.transaction() as session:
        return (await session.get_one(Step, step_id)).status == StepStatus.COMPLETED


async def _researcher(settings: Settings, crash_directory: Path) -> int | None:
    """Runs a researcher until it ends; returns its exit code."""
    environment = {
        **os.environ,
        DIRECTORY: str(crash_directory),
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_LEASE_SECONDS": str(settings.lease_seconds),
        "VIGIL_MODEL": settings.model,
        "VIGIL_MODEL_TOOL_CHOICE": settings.model_tool_choice,
        "VIGIL_EMBEDDING_MODEL": str(settings.embedding_model),
        "OPENAI_BASE_URL": str(settings.openai_base_url),
        "TAVILY_BASE_URL": str(settings.tavily_base_url),
    }
    process = await start_python("-m", "services.researcher", env=environment)
    try:
        return await asyncio.wait_for(process.wait(), 60)
    finally:
        if process.returncode is None:
            process.kill()
