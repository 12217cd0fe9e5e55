"""Vectors are paid for like all else: once, within the budget; and nothing fails for want of them."""

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
from tests.support.embeddings.seeker import QUESTION, Seeker, fill
from tests.support.levers import Sandbox
from tests.support.spending import Spender, book_faults


async def test_only_nodes_that_say_something_else_are_embedded_anew(
    seeker: Seeker, levers: Sandbox
) -> None:
    maker = await fill(seeker.world)
    await seeker.embed()
    await (await seeker.next_step()).embed(maker)
    assert levers.billed()["embedding"] == 1, "nothing was to be done"
    before = await _vector(seeker, maker)
    await seeker.world.touch(maker, properties={"summary": "A maker of biscuits."})
    last = await seeker.next_step()
    await last.embed(maker)
    assert await _vector(seeker, maker) != before
    [_, call] = await seeker.calls()
    assert call.request == {"embeds": 1}


async def test_a_step_sees_to_its_own_nodes_and_only_one_that_sweeps_to_others(
    seeker: Seeker,
) -> None:
    maker = await fill(seeker.world)
    finding = await seeker.world.unproven("A finding", ANALYSIS_TYPE)
    await seeker.embed(maker, sweeps=False)
    assert await seeker.embedded() == {maker}
    await (await seeker.next_step()).embed(sweeps=True)
    assert len(await seeker.embedded()) == 3
    assert finding in await seeker.embedded()


async def test_a_great_many_nodes_are_seen_to_step_by_step_and_none_is_missed(
    seeker: Seeker, levers: Sandbox
) -> None:
    many = MAX_SWEEP_NODES + 10
    async with seeker.world.database.transaction() as session:
        await session.execute(
            text(
                "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
                " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}', '2020-01-01T00:00:00Z'"
                " from generate_series(1, :many) n"
            ),
            {"agent": seeker.agent.id, "many": many},
        )
    await seeker.embed()
    assert (await seeker.vectors(), levers.billed()["embedding"]) == (
        MAX_SWEEP_NODES,
        MAX_SWEEP_NODES // MAX_BATCH_TEXTS,
    )
    await (await seeker.next_step()).embed()
    assert await seeker.vectors() == many
    in_calls = [call.request["embeds"] for call in await seeker.calls()]
    assert in_calls == [*[MAX_BATCH_TEXTS] * (MAX_SWEEP_NODES // MAX_BATCH_TEXTS), 10]


async def test_another_model_begins_anew(seeker: Seeker, levers: Sandbox) -> None:
    await fill(seeker.world)
    await seeker.embed()
    other = seeker.settings.model_copy(update={"embedding_model": "sandbox-other"})
    again = Seeker(seeker.world, levers, other, seeker.agent, (await seeker.next_step()).lease)
    assert await again.names() == [], "vectors of two models are not compared"
    await again.embed()
    assert await Seeker(
        seeker.world, levers, other, seeker.agent, (await seeker.next_step()).lease
    ).names() == ["Volta"]


async def test_what_fails_harms_nothing_is_tried_once_a_run_and_done_later(
    seeker: Seeker, levers: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._tell_unembedded", told.append)
    await fill(seeker.world)
    levers.faults({"kind": "status", "status": 500, "path": "/embeddings", "always": True})
    await seeker.embed()
    assert await seeker.embedded() == set()
    [first] = told
    assert "answered 500" in str(first)
    answers = await (await seeker.next_step()).ask("Volta", QUESTION)
    assert [[node["name"] for node in each["nodes"]] for each in answers] == [["Volta"], []]
    levers.reset()
    await (await seeker.next_step()).embed()
    assert await (await seeker.next_step()).names() == ["Volta"]


async def test_no_answer_is_left_behind_by_another_that_breaks(
    seeker: Seeker, monkeypatch: pytest.MonkeyPatch
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

    await fill(seeker.world)
    await seeker.embed()
    monkeypatch.setattr(Embedder, "embed", break_one)
    with pytest.raises(RuntimeError, match="thought of"):
        await seeker.ask("broken", QUESTION)
    assert len([call for call in await seeker.calls() if call.answered_at is None]) == 1


async def test_a_vector_of_another_length_is_refused_in_words(
    seeker: Seeker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._tell_unembedded", told.append)
    monkeypatch.setattr("shared.llm.provider.DIMENSIONS", DIMENSIONS + 1)
    await fill(seeker.world)
    await seeker.embed()
    assert await seeker.embedded() == set()
    assert "Set VIGIL_EMBEDDING_MODEL to a model" in str(told[0])


@pytest.mark.parametrize("heeded", [True, False])
async def test_a_worker_lost_between_answer_and_commit_costs_what_a_call_in_flight_does(
    seeker: Seeker, levers: Sandbox, monkeypatch: pytest.MonkeyPatch, *, heeded: bool
) -> None:
    if heeded:
        levers.heed_keys()
    await fill(seeker.world)
    with monkeypatch.context() as dying:
        dying.setattr("shared.llm.phase_run.failpoint", _dies)
        with pytest.raises(_KilledError):
            await seeker.embed()
    assert (await seeker.vectors(), levers.billed()["embedding"]) == (0, 1)
    await seeker.embed()
    assert (await seeker.vectors(), len(await seeker.calls())) == (2, 1)
    assert levers.billed()["embedding"] == (1 if heeded else 2)


async def test_what_is_committed_is_committed_with_its_vectors_and_never_asked_again(
    seeker: Seeker, levers: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(seeker.world)
    with monkeypatch.context() as dying:
        dying.setattr(embedding_backlog.Sweep, "_store_position", _fails)
        with pytest.raises(_KilledError):
            await seeker.embed()
    [call] = await seeker.calls()
    assert (await seeker.vectors(), call.answered_at) == (0, None)
    await seeker.embed()
    billed = levers.billed()["embedding"]
    await seeker.embed()
    assert levers.billed()["embedding"] == billed
    [call] = await seeker.calls()
    assert (await seeker.vectors(), call.answered_at is not None) == (2, True)


async def test_it_is_reserved_settled_and_priced(seeker: Seeker, levers: Sandbox) -> None:
    await fill(seeker.world)
    await seeker.embed()
    [call] = await seeker.calls()
    assert call.cost_usd == levers.billed_usd() > 0
    assert (call.attempts, call.reserved_on, call.output_tokens) == (1, None, 0)
    assert await book_faults(seeker.world.database) == []


async def test_at_the_cap_nothing_is_sent_and_the_work_goes_on(
    seeker: Seeker, levers: Sandbox
) -> None:
    await fill(seeker.world)
    spender = Spender(seeker.world.database, seeker.agent, seeker.lease)
    run = seeker.run()
    await run.begin()
    await spender.cap(dollars="0.0000001")
    await seeker.embed()
    assert levers.billed()["embedding"] == 0
    [call] = await seeker.calls()
    assert (call.attempts, call.answered_at) == (0, None)
    assert await book_faults(seeker.world.database) == []
    async with seeker.world.database.transaction() as session:
        agent = await session.get_one(Agent, seeker.agent.id)
        notices = (await session.scalars(select(InboxItem))).all()
    assert (agent.suspended_until, notices) == (None, []), "it can do without: its work goes on"


async def test_a_server_without_pgvector_is_asked_for_nothing_until_it_has_it(
    seeker: Seeker, levers: Sandbox, database_url: str
) -> None:
    await fill(seeker.world)
    async with seeker.world.database.transaction() as session:
        await session.execute(text("drop extension vector cascade"))
    await seeker.embed()
    assert await (await seeker.next_step()).names() == []
    assert levers.billed()["embedding"] == 0
    migrate.upgrade(database_url)
    await (await seeker.next_step()).embed()
    assert await (await seeker.next_step()).names() == ["Volta"]


async def test_all_of_it_goes_with_the_agent(seeker: Seeker) -> None:
    await fill(seeker.world)
    await seeker.embed()
    async with seeker.world.database.transaction() as session:
        await session.execute(
            text("delete from agents where id = :agent"), {"agent": seeker.agent.id}
        )
    async with seeker.world.database.transaction() as session:
        for table in (NodeEmbedding, EmbeddingSweep):
            assert (await session.scalars(select(table))).all() == []


class _KilledError(Exception):
    """As if the process had ended."""


def _dies(point: Failpoint) -> None:
    if point is Failpoint.CALL_ANSWERED:
        raise _KilledError


async def _fails(*_: object) -> None:
    raise _KilledError


async def _vector(seeker: Seeker, node_id: UUID) -> list[float]:
    async with seeker.world.database.transaction() as session:
        return (await session.get_one(NodeEmbedding, node_id)).embedding
