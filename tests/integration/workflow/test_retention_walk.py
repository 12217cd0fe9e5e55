"""Random work of an agent, and pruning at random ages: nothing that is needed is missing, and sums stay exact."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import select, text

from shared.database.engine import Database
from shared.database.tables import Agent, Evidence, Iteration, Source
from shared.enums import IterationStatus, RetentionKind
from shared.graph.entity_resolution import MergeRefusedError
from shared.graph.retraction.retractions import NoSuchSourceError
from shared.tools import ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.walking import Walk
from tests.support.marks import slow
from tests.support.retention.history import History, texts_of
from tests.support.retention.pruning import Sums, find_faults, prune_after, read_sums
from tests.support.seeds import repeatable

STEPS: Final = [40, *slow(400)]
BARELY_SUPPORTED: Final = "rests only on retracted pages"
MAX_DAYS: Final = 25
"""Less than the age limit, so that some rows outlive several steps."""


@dataclass
class RetentionWalk:
    graph: Walk
    history: History
    chance: Random
    open_iteration: UUID | None = None
    turns: int = 0
    done: list[str] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.history.database

    async def step(self) -> None:
        actions: list[tuple[Callable[[], Awaitable[object]], int]] = [
            (self.change_graph, 8),
            (self.iterate, 4),
            (self.begin_or_end, 4),
            (self.converse, 2),
            (self.fail, 1),
            (self.request_retry, 1),
            (self.discard_letters, 1),
            (self.read_pages_again, 1),
            (self.pass_days, 4),
            (self.prune, 6),
        ]
        choices, weights = zip(*actions, strict=True)
        [action] = self.chance.choices(choices, weights)
        self.done.append(action.__name__)
        await action()

    async def change_graph(self) -> None:
        # A page that was deleted cannot be retracted.
        with suppress(NoSuchSourceError):
            self.done.append(await self.graph.step())

    async def iterate(self) -> None:
        if self.open_iteration is None:
            await self.history.iterate(queries=self.chance.randint(0, 3))

    async def begin_or_end(self) -> None:
        if self.open_iteration is None:
            self.open_iteration = (await self.history.iterate(is_open=True)).id
        else:
            await self.history.end(self.open_iteration)
            self.open_iteration = None

    async def converse(self) -> None:
        self.turns += 1
        await self.history.converse(self.turns)

    async def fail(self) -> None:
        iteration_id = await self._some_iteration()
        if iteration_id is not None:
            await self.history.fail_step(iteration_id)

    async def request_retry(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(
                text(
                    "update steps set retry_requested_at = now() where id in (select step_id from dead_letters limit 1)"
                )
            )

    async def discard_letters(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(
                text(
                    "update steps set retry_requested_at = null where id in (select step_id from dead_letters)"
                )
            )
            await session.execute(text("delete from dead_letters"))

    async def read_pages_again(self) -> None:
        await self.graph.read_pages()

    async def pass_days(self) -> None:
        await self.history.pass_days(self.chance.uniform(0, MAX_DAYS))

    async def prune(self) -> None:
        needed = await self._needed()
        before = await self._sums()
        kinds = self.chance.sample([*RetentionKind], self.chance.randint(1, 4))
        days = self.chance.choice([0, 0, 31]) if RetentionKind.PAGES in kinds else 0
        # Only pages cannot become older by themselves.
        kinds = [RetentionKind.PAGES] if days else kinds
        await prune_after(self.database, days, *kinds)
        assert await self._sums() == before
        assert await self._needed() == needed
        await self.check()

    async def check(self) -> None:
        await self.history.assert_texts_can_be_read()
        faults = await find_faults(self.database, self.history.agent)
        assert [fault for fault in faults if BARELY_SUPPORTED not in fault] == []

    async def _sums(self) -> tuple[object, object]:
        sums: Sums = await read_sums(self.database, self.history.agent)
        return sums.summary, sums.budgets

    async def _needed(self) -> list[object]:
        """Texts of iterations that run, or of which a step waits, can be retried or will be."""
        needed = select(Iteration.id).where(
            text(
                "iterations.status = 'running' or exists (select from steps where iteration_id = iterations.id and ("
                " status in ('pending', 'running') or retry_requested_at > ended_at"
                " or exists (select from dead_letters where step_id = steps.id and stored_at > now() - interval '29 days')))"
            )
        )
        async with self.database.snapshot() as session:
            ids = list(await session.scalars(needed.order_by(Iteration.number)))
            cited = select(Source.id).where(Source.id.in_(select(Evidence.source_id)))
            pages = set(await session.scalars(cited))
        return [pages, *[(each, await texts_of(self.database, each)) for each in ids]]

    async def _some_iteration(self) -> UUID | None:
        async with self.database.snapshot() as session:
            ended = select(Iteration.id).where(
                Iteration.status == IterationStatus.COMPLETED,
                text(
                    "exists (select from steps where iteration_id = iterations.id and kind = 'query')"
                ),
                Iteration.transcripts_deleted_at.is_(None),
            )
            ids = list(await session.scalars(ended.order_by(Iteration.number)))
        return self.chance.choice(ids) if ids else None


async def begin_walk(agent_graph: AgentGraph, chance: Random) -> RetentionWalk:
    async with agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, agent_graph.scope.agent_id)
    walk = RetentionWalk(
        Walk(agent_graph, chance), History(agent_graph.database, agent, chance), chance
    )
    await walk.graph.begin()
    return walk


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("number", [0, *slow(1)])
async def test_nothing_that_is_needed_is_pruned(
    database: Database, seed: int, number: int, steps: int
) -> None:
    with repeatable(seed):
        walk = await begin_walk(await make_agent_graph(database), Random(seed + number))
        try:
            for _ in range(steps):
                await walk.step()
            await walk.prune()
        except Exception as error:
            error.add_note(f"after {', '.join(walk.done)}")
            raise


@pytest.mark.parametrize("steps", [8, *slow(150)])
async def test_pruning_disturbs_no_work_beside_it(
    database: Database, seed: int, steps: int
) -> None:
    """Several agents work while the pruner runs all the time. Nothing waits for long, deadlocks or is lost."""
    with repeatable(seed):
        walks = [
            await begin_walk(
                await make_agent_graph(database, f"watcher {number}"), Random(seed + number)
            )
            for number in range(3)
        ]
        is_over = asyncio.Event()

        async def prune_always() -> int:
            pruned = 0
            while not is_over.is_set():
                kinds = [kind for kind in RetentionKind if kind is not RetentionKind.PAGES]
                pruned += sum((await prune_after(database, 31, *kinds)).values())
            return pruned

        async def work(walk: RetentionWalk) -> None:
            for _ in range(steps):
                try:
                    await walk.graph.step()
                except (ToolRefusalError, MergeRefusedError):
                    continue
                await walk.history.iterate()
                await walk.history.converse(walk.turns)
                walk.turns += 1

        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            pruning = group.create_task(prune_always())
            await asyncio.gather(*map(work, walks))
            is_over.set()
        assert pruning.result() > 0
        for walk in walks:
            await walk.check()
            await read_sums(database, walk.history.agent)
