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
from tests.support.embeddings.seeker import Seeker
from tests.support.sandbox_control import Sandbox

REFUSED = {"kind": "status", "status": 400, "path": "/embeddings", "always": True}


async def test_a_refused_text_prevents_no_other_vector(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    await _add_old_nodes(seeker, 40)
    sandbox_control.faults({**REFUSED, "contains": "Land 17;"})
    await seeker.embed()
    assert await seeker.vectors() == 39
    before = len(await seeker.calls())
    await (await seeker.next_step()).embed()
    assert len(await seeker.calls()) == before, "the sweep skips it and does not request it again"


async def test_a_step_embeds_its_own_nodes_even_if_the_sweep_fails(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    own = await seeker.world.node("Volta")
    await _add_old_nodes(seeker, 3)
    sandbox_control.faults({**REFUSED, "status": 500, "contains": "Land"})
    await seeker.embed(own)
    assert await seeker.embedded() == {own}


async def test_a_server_that_refuses_everything_is_asked_a_few_times_and_no_node_is_skipped(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    await _add_old_nodes(seeker, 40)
    sandbox_control.faults(REFUSED)
    await seeker.embed()
    assert len(await seeker.calls()) <= 12
    assert await _sweep_position(seeker) is None
    sandbox_control.reset()
    await (await seeker.next_step()).embed()
    assert await seeker.vectors() == 40


async def test_a_refused_text_is_not_skipped_until_another_is_accepted(
    seeker: Seeker, sandbox_control: Sandbox
) -> None:
    await _add_old_nodes(seeker, 1)
    sandbox_control.faults({**REFUSED, "contains": "Land 1;"})
    await seeker.embed()
    assert await _sweep_position(seeker) is None


async def test_only_a_sweeping_step_stores_its_position(seeker: Seeker) -> None:
    own = await seeker.world.node("Volta")
    await seeker.embed(own, sweeps=False)
    assert await _sweep_position(seeker) is None


@pytest.mark.parametrize("days", [-1, 1])
async def test_a_position_stored_by_another_step_is_kept(
    seeker: Seeker, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    await _add_old_nodes(seeker, 1)
    await seeker.embed()
    before = await _sweep_position(seeker)
    assert before is not None
    await _add_old_nodes(seeker, 1, first=2)
    position = before + timedelta(days=days)

    async def store_position() -> None:
        async with seeker.world.database.transaction() as session:
            await session.execute(update(EmbeddingSweep).values(through_at=position))

    _act_during_call(monkeypatch, store_position)
    await (await seeker.next_step()).embed()
    assert await seeker.vectors() == 2
    assert await _sweep_position(seeker) == position


async def test_a_sweep_does_not_skip_nodes_restored_during_it(
    seeker: Seeker, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first, *_] = await _add_old_nodes(seeker, 1)
    await seeker.embed()
    before = await _sweep_position(seeker)
    assert before is not None
    await _add_old_nodes(seeker, 1, first=2)

    async def restore() -> None:
        async with seeker.world.database.transaction() as session:
            await rewind_sweep(session, seeker.world.scope, [first])

    _act_during_call(monkeypatch, restore)
    await (await seeker.next_step()).embed()
    position = await _sweep_position(seeker)
    assert position is not None
    assert position < before


async def _add_old_nodes(seeker: Seeker, count: int, *, first: int = 1) -> Sequence[UUID]:
    """Adds nodes old enough that no older ones can still be committed."""
    async with seeker.world.database.transaction() as session:
        result = await session.execute(
            text(
                "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
                " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}',"
                " '2020-01-01T00:00:00Z'::timestamptz + n * interval '1 minute'"
                " from generate_series(cast(:first as int), :last) n returning id"
            ),
            {"agent": seeker.agent.id, "first": first, "last": first + count - 1},
        )
        return result.scalars().all()


async def _sweep_position(seeker: Seeker) -> datetime | None:
    async with seeker.world.database.transaction() as session:
        return await session.scalar(select(EmbeddingSweep.through_at))


def _act_during_call(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]) -> None:
    """Runs `act` after the nodes are read and before their vectors are stored."""
    embed = Embedder.embed

    async def embed_after_act(
        self: Embedder, request: EmbeddingRequest, in_flight: ResumableCall
    ) -> Embedded:
        await act()
        return await embed(self, request, in_flight)

    monkeypatch.setattr(Embedder, "embed", embed_after_act)
