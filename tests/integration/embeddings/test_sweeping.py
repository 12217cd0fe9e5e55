"""All nodes are gone through: what is refused holds up nobody else, and nobody undoes what another has noted."""

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
from tests.support.levers import Sandbox

REFUSED = {"kind": "status", "status": 400, "path": "/embeddings", "always": True}


async def test_a_text_that_is_refused_keeps_no_other_from_its_vector(
    seeker: Seeker, levers: Sandbox
) -> None:
    await _old_lands(seeker, 40)
    levers.faults({**REFUSED, "contains": "Land 17;"})
    await seeker.embed()
    assert await seeker.vectors() == 39
    before = len(await seeker.calls())
    await (await seeker.next_step()).embed()
    assert len(await seeker.calls()) == before, "it is left behind, and not asked for again"


async def test_what_a_step_wrote_itself_does_not_depend_on_what_it_sweeps(
    seeker: Seeker, levers: Sandbox
) -> None:
    own = await seeker.world.node("Volta")
    await _old_lands(seeker, 3)
    levers.faults({**REFUSED, "status": 500, "contains": "Land"})
    await seeker.embed(own)
    assert await seeker.embedded() == {own}


async def test_whoever_refuses_everything_is_asked_a_few_times_and_none_is_left_behind(
    seeker: Seeker, levers: Sandbox
) -> None:
    await _old_lands(seeker, 40)
    levers.faults(REFUSED)
    await seeker.embed()
    assert len(await seeker.calls()) <= 12
    assert await _place(seeker) is None
    levers.reset()
    await (await seeker.next_step()).embed()
    assert await seeker.vectors() == 40


async def test_a_single_text_that_is_refused_is_not_left_behind_before_another_is_taken(
    seeker: Seeker, levers: Sandbox
) -> None:
    await _old_lands(seeker, 1)
    levers.faults({**REFUSED, "contains": "Land 1;"})
    await seeker.embed()
    assert await _place(seeker) is None


async def test_only_a_step_that_sweeps_notes_how_far_it_went(seeker: Seeker) -> None:
    own = await seeker.world.node("Volta")
    await seeker.embed(own, sweeps=False)
    assert await _place(seeker) is None


@pytest.mark.parametrize("elsewhere", [-1, 1])
async def test_what_another_notes_meanwhile_stands(
    seeker: Seeker, monkeypatch: pytest.MonkeyPatch, elsewhere: int
) -> None:
    await _old_lands(seeker, 1)
    await seeker.embed()
    before = await _place(seeker)
    assert before is not None
    await _old_lands(seeker, 1, first=2)
    noted = before + timedelta(days=elsewhere)

    async def note() -> None:
        async with seeker.world.database.transaction() as session:
            await session.execute(update(EmbeddingSweep).values(through_at=noted))

    _during_a_call(monkeypatch, note)
    await (await seeker.next_step()).embed()
    assert await seeker.vectors() == 2
    assert await _place(seeker) == noted


async def test_whoever_sweeps_while_nodes_come_back_does_not_pass_over_them(
    seeker: Seeker, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first, *_] = await _old_lands(seeker, 1)
    await seeker.embed()
    noted = await _place(seeker)
    assert noted is not None
    await _old_lands(seeker, 1, first=2)

    async def come_back() -> None:
        async with seeker.world.database.transaction() as session:
            await rewind_sweep(session, seeker.world.scope, [first])

    _during_a_call(monkeypatch, come_back)
    await (await seeker.next_step()).embed()
    place = await _place(seeker)
    assert place is not None
    assert place < noted


async def _old_lands(seeker: Seeker, many: int, *, first: int = 1) -> Sequence[UUID]:
    """Nodes of which none as old may still come to be seen."""
    async with seeker.world.database.transaction() as session:
        made = await session.execute(
            text(
                "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
                " select gen_random_uuid(), :agent, 'Country', 'Land ' || n, '{}',"
                " '2020-01-01T00:00:00Z'::timestamptz + n * interval '1 minute'"
                " from generate_series(cast(:first as int), :last) n returning id"
            ),
            {"agent": seeker.agent.id, "first": first, "last": first + many - 1},
        )
        return made.scalars().all()


async def _place(seeker: Seeker) -> datetime | None:
    async with seeker.world.database.transaction() as session:
        return await session.scalar(select(EmbeddingSweep.through_at))


def _during_a_call(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]) -> None:
    """Has `act` done when nodes were looked up and nothing of them is kept yet."""
    embed = Embedder.embed

    async def acting(
        self: Embedder, request: EmbeddingRequest, in_flight: ResumableCall
    ) -> Embedded:
        await act()
        return await embed(self, request, in_flight)

    monkeypatch.setattr(Embedder, "embed", acting)
