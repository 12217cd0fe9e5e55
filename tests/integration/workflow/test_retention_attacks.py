"""Work beside the pruner, attacking or random: what must survive does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final
from uuid import UUID, uuid4

import psycopg
import pytest
from pydantic import ValidationError
from sqlalchemy import func, select, text

from services.scheduler import pruning_sql
from services.scheduler.pruner import LONGEST_TRANSACTION
from shared.agents.agents import delete_agent
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    Evidence,
    InboxItem,
    Interaction,
    Iteration,
    Retention,
    RetractedSource,
    Retraction,
    Source,
)
from shared.database.tables.billing import Context
from shared.enums import InboxKind, IterationStatus, RetentionKind
from shared.graph.entity_resolution import MergeRefusedError
from shared.graph.retraction import retractions
from shared.graph.retraction.retractions import NoSuchSourceError
from shared.graph.scope import GraphScope
from shared.graph.transfer import exporter
from shared.runtime import settings as settings_module
from shared.runtime.settings import Settings
from shared.tools import ToolRefusalError
from tests.support.factories import make_agent
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.verification import breaks
from tests.support.graph.walking import Walk
from tests.support.marks import slow
from tests.support.retention.history import History, texts_of
from tests.support.retention.pruning import Sums, find_faults, prune_after, pruner, read_sums
from tests.support.seeds import repeatable
from tests.support.table_rows import add


@pytest.fixture
async def history(database: Database) -> History:
    return History(database, await make_agent(database))


async def test_a_phase_run_of_a_conversation_is_kept_while_one_of_its_calls_is_reserved(
    history: History,
) -> None:
    step_id = await history.converse(1)
    await history.pass_days(40)
    async with history.database.transaction() as session:
        await session.execute(
            text(
                "update calls set reserved_on = now() - interval '40 days', reserved_usd = 1, answer = null,"
                " answered_at = null where id = (select id from calls where step_id = :step limit 1)"
            ),
            {"step": step_id},
        )
    await prune_after(history.database, 0, RetentionKind.TRANSCRIPTS)
    async with history.database.snapshot() as session:
        assert await session.scalar(select(func.count(Interaction.id))) == 1
        assert await session.scalar(select(func.count(Call.id))) == 3


async def test_an_iteration_is_as_old_as_the_newest_end_of_its_steps(history: History) -> None:
    """A step that was retried long after the end of its iteration has calls of today."""
    iteration = await history.iterate()
    await history.iterate()
    await history.pass_days(40)
    async with history.database.transaction() as session:
        await session.execute(
            text("update steps set ended_at = now() where iteration_id = :id and kind = 'query'"),
            {"id": iteration.id},
        )
    await prune_after(history.database, 0)
    async with history.database.snapshot() as session:
        kept = await session.get_one(Iteration, iteration.id)
        assert kept.transcripts_deleted_at is None
    await prune_after(history.database, 31)
    async with history.database.snapshot() as session:
        assert await session.get(Iteration, iteration.id) is None


async def test_a_pass_that_is_due_in_too_long_is_made_now(history: History) -> None:
    """The clock was ahead, or the setting was longer before."""
    await history.iterate()
    await history.iterate()
    await history.pass_days(40)
    hourly = pruner(history.database)
    async with history.database.transaction() as session:
        for kind in RetentionKind:
            await session.execute(
                pruning_sql.REGISTER, {"kind": kind, "days": 30, "max_bytes": None}
            )
        await session.execute(text("update retention set next_at = now() + interval '400 days'"))
    await hourly.prune_due()
    async with history.database.snapshot() as session:
        row = await session.get_one(Retention, RetentionKind.ITERATIONS)
    assert row.last_rows == 1


async def test_the_longest_age_can_be_pruned_by(history: History) -> None:
    days = settings_module.MAX_DAYS
    longest = dict.fromkeys(RetentionKind, days)
    assert Settings(retention_iterations_days=days).retention_iterations_days == days
    for kind in RetentionKind:
        assert await pruner(history.database, dict(longest)).prune(kind) == 0


@pytest.mark.parametrize("days", [-1, 1, 1 / 86_400, 1e6, 1e9, 1e15, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", RetentionKind)
def test_an_age_that_no_pass_could_use_is_refused(kind: RetentionKind, days: float) -> None:
    with pytest.raises(ValidationError, match="give"):
        Settings.model_validate({f"retention_{kind}_days": days})


async def test_an_agent_that_cannot_be_pruned_does_not_stop_the_others(
    database: Database, database_url: str
) -> None:
    agents = [await make_agent(database, name=f"watcher {number}") for number in range(3)]
    for agent in agents:
        history = History(database, agent)
        for _ in range(2):
            await history.iterate()
    await history.pass_days(40)
    [poison, *others] = sorted(agent.id for agent in agents)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "create function refuse() returns trigger language plpgsql as $$ begin"
            f" if old.agent_id = '{poison}' then raise exception using errcode = '40P01'; end if;"
            " return old; end $$"
        )
        connection.execute(
            "create trigger refuse before delete on iterations for each row execute function refuse()"
        )
    assert await pruner(database).prune(RetentionKind.ITERATIONS) == len(others)
    async with database.snapshot() as session:
        left = set(await session.scalars(select(Iteration.agent_id).where(Iteration.number == 1)))
    assert left == {poison}


class _Needing:
    """Makes the oldest contexts needed again when the pruner has found them, before it deletes them."""

    def __init__(self, history: History, statements: Sequence[str]) -> None:
        self.statements = [text(each) for each in statements]
        self.history = history

    async def prune(self) -> tuple[set[bytes], set[bytes]]:
        """The contexts that were needed again, and those that are left."""
        database, agent_id = self.history.database, self.history.agent.id
        of_tests = pruner(database)
        async with database.transaction() as session:
            now = (await session.execute(pruning_sql.NOW)).scalar_one()
            params = {"agent": agent_id, "before": now, "most": 1000}
            found = list(await session.scalars(pruning_sql.UNNEEDED_CONTEXTS, params))
        async with database.transaction() as session:
            needed = set[bytes]()
            for statement in self.statements:
                needed |= set(await session.scalars(statement, {"agent": agent_id}))
        since = now - LONGEST_TRANSACTION
        await of_tests._delete_contexts(params | {"since": since, "unneeded": found})
        async with database.snapshot() as session:
            return needed, set(await session.scalars(select(Context.sha256)))


_DEEPEST = "(select sha256 from contexts order by depth desc, sha256 limit 1)"
NEEDED_AGAIN = {
    "a phase run that has started": [
        "insert into llm_interactions (id, agent_id, phase, model, system_prompt, request, context_sha256)"
        f" values (gen_random_uuid(), :agent, 'observer', 'm', '', '{{}}', {_DEEPEST}) returning context_sha256"
    ],
    "a phase run that was resumed": [
        "update steps set retry_requested_at = now() where iteration_id is not null returning sha256('')",
        "update llm_interactions set context_sha256 ="
        f" {_DEEPEST} where step_id = (select id from steps where iteration_id is not null limit 1)"
        " returning context_sha256",
    ],
    "a pin of an iteration that runs": [
        "update iterations set status = 'running', ended_at = null where number = 1 returning sha256('')",
        "insert into pinned_contexts (iteration_id, kind, round, agent_id, sha256) select id, 'insight', 0, agent_id,"
        f" {_DEEPEST} from iterations where number = 1 returning sha256",
    ],
    "a difference from it": [
        "insert into contexts (agent_id, sha256, base_sha256, depth, data)"
        f" values (:agent, sha256('new'), {_DEEPEST}, 9, '') returning base_sha256"
    ],
}


@pytest.mark.parametrize("reason", NEEDED_AGAIN)
async def test_a_context_that_is_needed_again_is_kept(history: History, reason: str) -> None:
    for _ in range(3):
        await history.iterate(queries=3)
    await history.pass_days(40)
    await prune_after(history.database, 0, RetentionKind.TRANSCRIPTS)
    async with history.database.snapshot() as session:
        rows = await session.execute(select(Context.sha256, Context.base_sha256))
        bases = {row.sha256: row.base_sha256 for row in rows}
    assert len(bases) > 8
    needed, left = await _Needing(history, NEEDED_AGAIN[reason]).prune()
    needed &= bases.keys()
    assert needed
    chain = set(needed)
    while more := {bases[each] for each in chain if bases[each]} - chain:
        chain |= more
    assert left & bases.keys() == chain


@pytest.mark.parametrize("by", ["id", "url"])
async def test_a_retraction_that_is_made_at_the_same_time_keeps_its_page(
    database: Database, by: str
) -> None:
    graph = await make_agent_graph(database)
    await Walk(graph, Random(1)).read_pages()
    async with database.transaction() as session:
        page = await session.scalar(select(getattr(Source, by)).limit(1))
        await retractions.retract_source(session, graph.scope, str(page), "wrong")
        async with asyncio.timeout(10):
            await prune_after(database, 31, RetentionKind.PAGES)
    async with database.snapshot() as session:
        assert await session.scalar(select(func.count(Retraction.id))) == 1
        assert list(await session.scalars(select(RetractedSource.source_id)))
        assert await breaks(session, graph.scope) == []
    await prune_after(database, 31, RetentionKind.PAGES)
    async with database.snapshot() as session:
        assert await breaks(session, graph.scope) == []
        assert list(await session.scalars(select(Source.id)))


async def test_rows_that_another_transaction_writes_are_left_for_the_next_pass(
    history: History,
) -> None:
    """Waiting for them could end in a deadlock, of which either side may be the victim."""
    agent = history.agent
    async with history.database.transaction() as session:
        for _ in range(3):
            await add(session, notice(agent))
        await session.execute(
            text(
                "update inbox_items set dispatched_at = now(), created_at = now() - interval '90 days'"
            )
        )
        order = text("select id from inbox_items order by ctid")
        first, _, last = await session.scalars(order)
    read = text("update inbox_items set read_at = now() where id = :id")
    async with history.database.transaction() as session:
        await session.execute(read, {"id": last})
        async with asyncio.timeout(10):
            assert await pruner(history.database).prune(RetentionKind.NOTICES) == 0
        await session.execute(read, {"id": first})
    assert await pruner(history.database).prune(RetentionKind.NOTICES) == 3


def notice(agent: Agent) -> InboxItem:
    return InboxItem(
        id=uuid4(),
        owner_id=agent.owner_id,
        agent_id=agent.id,
        kind=InboxKind.NOTICE,
        title="Spent",
        summary="Half of it.",
    )


async def test_a_notice_of_this_month_is_kept(history: History) -> None:
    """Its row prevents a second one of the same month's budget."""
    async with history.database.transaction() as session:
        await add(session, notice(history.agent))
        await session.execute(
            text(
                "update inbox_items set dispatched_at = now(), created_at = now() - interval '29 days'"
            )
        )
    two_days = {RetentionKind.NOTICES: 2.0}
    assert await pruner(history.database, two_days).prune(RetentionKind.NOTICES) == 0
    with pytest.raises(ValidationError, match="give at least 31 days"):
        Settings(retention_notices_days=30)


async def test_a_property_without_a_value_keeps_no_page(database: Database) -> None:
    graph = await make_agent_graph(database)
    await Walk(graph, Random(1)).read_pages()
    async with database.transaction() as session:
        pages = await session.scalar(select(func.count(Source.id)))
        await session.execute(
            text(
                "insert into graph_merges (id, agent_id, kept_id, merged_id, reason, merged_node, journal)"
                " values (:agent, :agent, gen_random_uuid(), gen_random_uuid(), '', '{}', cast(:journal as jsonb))"
            ),
            {"agent": graph.scope.agent_id, "journal": '{"node": {"source_id": null}}'},
        )
    assert pages
    pruned = await prune_after(database, 31, RetentionKind.PAGES)
    assert pruned[RetentionKind.PAGES] == pages


@pytest.mark.slow
async def test_pruning_beside_verification_export_work_and_deletion(
    database: Database, seed: int
) -> None:
    """Snapshots stay whole, no transaction deadlocks, and an agent can be deleted in the middle of a pass."""
    chance = Random(seed)
    agents = [await make_agent(database, name=f"watcher {number}") for number in range(4)]
    histories = [History(database, agent, Random(seed)) for agent in agents]
    doomed, *kept = histories
    for history in histories:
        for turn in range(4):
            await history.iterate(queries=2)
            await history.converse(turn)
    await doomed.pass_days(40)
    is_over = asyncio.Event()

    async def prune() -> int:
        pruned = 0
        while not is_over.is_set():
            pruned += await pruner(database).prune(chance.choice(list(RetentionKind)))
        return pruned

    async def work(history: History) -> None:
        for turn in range(10, 20):
            await history.iterate()
            await history.converse(turn)

    async def read(history: History) -> None:
        scope = GraphScope(history.agent.owner_id, history.agent.id)
        while not is_over.is_set():
            assert await find_faults(database, history.agent) == []
            async with database.snapshot() as session:
                exported = exporter.export_json_lines(exporter.GraphContent(session, scope))
                assert len([line async for line in exported]) >= 2

    async def delete() -> None:
        async with database.transaction() as session:
            await delete_agent(session, doomed.agent.id)

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        pruning = [group.create_task(prune()) for _ in range(2)]
        for history in kept[:2]:
            group.create_task(read(history))
        await asyncio.gather(*map(work, kept), delete())
        is_over.set()
    assert sum(task.result() for task in pruning) > 0
    for history in kept:
        assert await find_faults(database, history.agent) == []
        await history.assert_texts_can_be_read()
        await read_sums(database, history.agent)
    async with database.snapshot() as session:
        assert (
            await session.scalar(
                select(func.count(Iteration.id)).where(Iteration.agent_id == doomed.agent.id)
            )
            == 0
        )


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
