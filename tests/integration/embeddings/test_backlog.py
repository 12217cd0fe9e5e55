"""The sweep over all nodes: a refused text blocks no other, and steps do not overwrite each other's position."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import select, text, update

from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import ResumableCall
from shared.database.tables import EmbeddingSweep
from shared.graph.retrieval.embedding_backlog import rewind_sweep
from shared.llm.provider import Embedded, Embedder
from tests.support.embeddings.embedding_case import EmbeddingCase
from tests.support.sandbox_control import Sandbox

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
