"""What is old is deleted by age and by size: costs stay exact, and nothing that is needed is missing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import func, select, text, update

from services.api.resources.iterations import model as iteration_queries
from services.api.resources.iterations import transcripts
from services.observer.history import prepare_covering, prepare_history
from services.scheduler import pruning_sql
from services.scheduler.pruner import Pruner
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import (
    Agent,
    Call,
    GraphNode,
    Interaction,
    Iteration,
    KeptInsight,
    NewsItem,
    Retention,
    Source,
    Step,
)
from shared.database.tables.billing import Context
from shared.enums import (
    ANALYSIS_TYPE,
    IterationStatus,
    NewsKind,
    NewsState,
    RetentionKind,
    StepKind,
    StepStatus,
)
from shared.graph.scope import GraphScope
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import iterations
from shared.workflow.agent_clock import AgentClock
from shared.workflow.iterations import IterationRow
from shared.workflow.retention import MIN_DAYS, RetentionPolicy
from tests.conftest import cloned, connected, renew_stream, settings_of_service, with_sandbox
from tests.support.api.access import agent_access, owner_access
from tests.support.engines import Nats, Postgres
from tests.support.factories import make_agent, make_iteration
from tests.support.retention.history import History, texts_of
from tests.support.retention.pruning import (
    count_rows,
    find_faults,
    prune_after,
    pruner,
    publish_ends,
    read_sums,
)
from tests.support.retention.simulation import PRUNED_TABLES, Simulation
from tests.support.running_services import ended_iteration, running_services
from tests.support.table_rows import change

KNOWLEDGE = ("graph_nodes", "graph_edges", "graph_names", "evidence", "citations")


@dataclass
class Working:
    """An agent that has done two iterations on the sandbox."""

    database: Database
    settings: Settings
    agent: Agent

    async def iterate(self, number: int) -> Iteration:
        async with self.database.transaction() as session:
            row = await session.get_one(Agent, self.agent.id)
            row = await change(
                session, row, run_requested_at=await iterations.database_time(session)
            )
        async with running_services(self.settings):
            iteration = await ended_iteration(self.database, self.agent, number)
        await publish_ends(self.database)
        return iteration


@pytest.fixture(scope="module")
async def two_iterations(
    postgres: Postgres, nats_server: Nats, stream_admin: Bus, sandbox_server: str
) -> AsyncIterator[Working]:
    """Its database is closed."""
    with cloned(postgres) as url:
        await renew_stream(stream_admin)
        settings = with_sandbox(settings_of_service(url, nats_server.url), sandbox_server)
        async with connected(url) as database:
            working = Working(database, settings, await make_agent(database))
            for number in (1, 2):
                assert (await working.iterate(number)).status == IterationStatus.COMPLETED
        yield working


@pytest.fixture
async def working(
    two_iterations: Working, postgres: Postgres, sandbox_settings: Settings
) -> AsyncIterator[Working]:
    with cloned(postgres, two_iterations.settings.database_url) as url:
        settings = sandbox_settings.model_copy(update={"database_url": url})
        async with connected(url) as database:
            yield Working(database, settings, two_iterations.agent)


async def test_texts_are_deleted_and_everything_else_stays(working: Working) -> None:
    database, agent = working.database, working.agent
    rows, sums = await count_rows(database), await read_sums(database, agent)
    pruned = await prune_after(database, 31, RetentionKind.TRANSCRIPTS, RetentionKind.CONTEXTS)
    assert pruned[RetentionKind.TRANSCRIPTS] == rows["llm_interactions"]
    left = await count_rows(database)
    assert left["contexts"] == left["pinned_contexts"] == 0
    changed = {"contexts", "pinned_contexts", "pruned_iterations", "retention", "graph_journal"}
    assert {name for name in rows if rows[name] != left[name]} == changed
    assert await read_sums(database, agent) == sums
    assert await find_faults(database, agent) == []
    async with database.snapshot() as session:
        assert await session.scalar(select(func.count(Call.answer))) == 0
        assert await session.scalar(select(func.max(func.length(Interaction.system_prompt)))) == 0
        marked = await session.scalars(select(Iteration.transcripts_deleted_at))
        assert all(marked)


async def test_a_text_is_kept_until_it_is_old(working: Working) -> None:
    before = await count_rows(working.database)
    pruned = await prune_after(working.database, 29)
    assert set(pruned.values()) == {0}
    assert before | {"retention": len(RetentionKind)} == await count_rows(working.database)


async def test_iterations_without_texts_can_be_read(working: Working) -> None:
    database, agent = working.database, working.agent
    await prune_after(database, 31, RetentionKind.TRANSCRIPTS, RetentionKind.CONTEXTS)
    async with database.snapshot() as session:
        details = await iteration_queries.get_by_number(
            agent_access(session, agent.owner_id, agent.id), 1
        )
        trace = await iteration_queries.get_trace(
            agent_access(session, agent.owner_id, agent.id), 1
        )
        assert details.transcripts_deleted_at is not None
        assert {run.system_prompt for run in details.interactions} == {""}
        assert len(trace.calls) == details.calls.llm_calls + details.calls.search_calls
        for run in trace.runs:
            run_details = await transcripts.find_phase_run(
                owner_access(session, agent.owner_id), run.id
            )
            assert run_details.request == {}


async def test_iterations_are_deleted_and_costs_stay(working: Working) -> None:
    database, agent = working.database, working.agent
    rows, sums = await count_rows(database), await read_sums(database, agent)
    await prune_after(database, 31)
    left = await count_rows(database)
    # The newest one that has worked is kept.
    assert left["iterations"] == 1
    assert 0 < left["calls"] < rows["calls"]
    assert left["contexts"] == left["pinned_contexts"] == 0
    assert [left[name] for name in KNOWLEDGE] == [rows[name] for name in KNOWLEDGE]
    assert await read_sums(database, agent) == sums
    assert await find_faults(database, agent) == []
    iteration = await working.iterate(3)
    assert iteration.status in (IterationStatus.COMPLETED, IterationStatus.QUIET)
    assert await find_faults(database, agent) == []


async def test_what_analyses_were_asked_for_is_kept(working: Working) -> None:
    """A plan must not ask for the same again."""
    database, agent = working.database, working.agent
    await History(database, agent).iterate()  # the newest that has worked is kept
    await insert_analysis(database, agent)
    current = (await make_iteration(database, agent)).iteration.id
    before = await texts_of_analyses(database, agent, current)
    await prune_after(database, 31)
    async with database.snapshot() as session:
        kept = set(await session.scalars(select(KeptInsight.step_id)))
        nodes = select(GraphNode.step_id).where(GraphNode.type == ANALYSIS_TYPE)
        steps = set(await session.scalars(select(Step.id)))
        assert kept == set(await session.scalars(nodes)) - steps
        assert kept
    assert await texts_of_analyses(database, agent, current) == before


async def insert_analysis(database: Database, agent: Agent) -> None:
    """Insert an analysis of the first iteration. The sandbox does not write one in every run."""
    analysis_id = uuid4()
    async with database.transaction() as session:
        iteration_id = await session.scalar(
            select(Iteration.id)
            .where(Iteration.agent_id == agent.id)
            .order_by(Iteration.number)
            .limit(1)
        )
        assert iteration_id is not None
        step_id = ids.step_id(iteration_id, StepKind.INSIGHT, 100)
        await session.insert(
            Step,
            id=step_id,
            iteration_id=iteration_id,
            agent_id=agent.id,
            kind=StepKind.INSIGHT,
            index=100,
            status=StepStatus.COMPLETED,
            input={"observation": "Prices rise", "synthesis_direction": "Compare them"},
            result={"analyses": [str(analysis_id)]},
            ended_at=func.clock_timestamp(),
        )
        await session.insert(
            GraphNode,
            id=analysis_id,
            agent_id=agent.id,
            type=ANALYSIS_TYPE,
            name="Prices compared",
            properties={"summary": "Prices rise.", "content": "Prices rise."},
            step_id=step_id,
        )


async def texts_of_analyses(database: Database, agent: Agent, iteration_id: UUID) -> set[str]:
    """What the Observer compares the insights of a new plan with."""
    scope = GraphScope(agent.owner_id, agent.id, iteration_id)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, iteration_id)
        row = IterationRow(*(getattr(iteration, name) for name in IterationRow._fields))
        batch = Batch()
        read = prepare_history(batch, scope)
        clock = AgentClock(iteration.started_at)
        await batch.execute(session)
        batch = Batch()
        covering = prepare_covering(batch, scope, read(row, clock).analyses)
        await batch.execute(session)
        texts = {each.text for each in covering.value}
    assert texts
    return texts


async def test_pages_that_nothing_cites_are_deleted(working: Working) -> None:
    database, agent = working.database, working.agent
    cited = text("select count(distinct source_id) from evidence")
    rows = await count_rows(database)
    async with database.snapshot() as session:
        of_evidence = await session.scalar(cited)
    pruned = await prune_after(database, 31, RetentionKind.PAGES)
    async with database.snapshot() as session:
        assert await session.scalar(select(func.count(Source.id))) == of_evidence
    assert pruned[RetentionKind.PAGES] == rows["sources"] - (of_evidence or 0)
    assert await find_faults(database, agent) == []


@pytest.fixture
async def history(database: Database) -> History:
    return History(database, await make_agent(database))


NEEDED: dict[str, str] = {
    "the iteration runs": "update iterations set status = 'running', ended_at = null where id = :iteration",
    "its end may not have been published": "update iterations set end_published_at = null where id = :iteration",
    "a step is pending": "update steps set status = 'pending', ended_at = null where id = :step",
    "a step runs": "update steps set status = 'running', ended_at = null where id = :step",
    "a retry is requested": "update steps set status = 'failed', retry_requested_at = now() where id = :step",
    "a retried step has not ended": "update steps set retry_requested_at = now(), ended_at = null where id = :step",
    "a call is in flight": (
        "update calls set reserved_on = now(), reserved_usd = 1, answer = null, answered_at = null"
        " where id = (select id from calls where step_id = :step limit 1)"
    ),
}


async def test_what_is_needed_is_kept(
    history: History, database_url: str, postgres: Postgres, subtests: pytest.Subtests
) -> None:
    kept, other = await history.iterate(), await history.iterate()
    await history.iterate()
    step_id = ids.step_id(kept.id, StepKind.QUERY, 0)
    await history.pass_days(40)
    await history.database.close()
    for reason in (*NEEDED, "a step can be retried"):
        with subtests.test(reason), cloned(postgres, database_url) as url:
            async with connected(url) as database:
                copy = replace(history, database=database)
                if reason in NEEDED:
                    async with database.transaction() as session:
                        statement = text(NEEDED[reason])
                        names = statement.compile().params
                        values = {"iteration": kept.id, "step": step_id}
                        await session.execute(statement, {name: values[name] for name in names})
                else:
                    await copy.fail_step(kept.id)
                before = await texts_of(database, kept.id)
                await prune_after(database, 0)
                assert await texts_of(database, kept.id) == before
                assert await texts_of(database, other.id) == (0, 0, 0)
                await copy.assert_texts_can_be_read()


async def test_what_was_needed_is_deleted_later(history: History) -> None:
    iteration = await history.iterate()
    await history.iterate()
    step_id = await history.fail_step(iteration.id)
    await history.pass_days(40)
    async with history.database.transaction() as session:
        await session.execute(text("update dead_letters set stored_at = now()"))
    await prune_after(history.database, 0)
    assert (await texts_of(history.database, iteration.id))[2] == 2
    pruned = await prune_after(history.database, 31)
    assert pruned[RetentionKind.DEAD_LETTERS] == 1
    assert (await texts_of(history.database, iteration.id))[2] == 0
    async with history.database.snapshot() as session:
        assert await session.get(Step, step_id) is None


async def test_rows_that_another_transaction_has_locked_are_left(history: History) -> None:
    iteration = await history.iterate()
    await history.iterate()
    await history.pass_days(40)
    async with history.database.transaction() as session:
        await session.execute(
            select(Step.id).where(Step.iteration_id == iteration.id).limit(1).with_for_update()
        )
        pruned = await prune_after(history.database, 0, RetentionKind.ITERATIONS)
        assert pruned[RetentionKind.ITERATIONS] == 0
    pruned = await prune_after(history.database, 0, RetentionKind.ITERATIONS)
    assert pruned[RetentionKind.ITERATIONS] == 1


async def test_phase_runs_of_conversations_are_deleted_and_the_status_of_the_answer_stays(
    history: History,
) -> None:
    step_id = await history.converse(1)
    sums = await read_sums(history.database, history.agent)
    await history.pass_days(31)
    await prune_after(history.database, 0)
    async with history.database.snapshot() as session:
        assert (await session.get_one(Step, step_id)).status == StepStatus.COMPLETED
        assert await session.scalar(select(func.count(Interaction.id))) == 0
        assert await session.scalar(select(func.count(Call.id))) == 0
    assert (await read_sums(history.database, history.agent)).summary == sums.summary
    assert await find_faults(history.database, history.agent) == []


async def test_contexts_that_others_are_differences_from_are_kept(history: History) -> None:
    for _ in range(4):
        await history.iterate(queries=3)
    await history.pass_days(40)
    last = await history.iterate(queries=3)
    rows = await count_rows(history.database)
    await prune_after(history.database, 0, RetentionKind.TRANSCRIPTS, RetentionKind.CONTEXTS)
    assert 0 < (await count_rows(history.database))["contexts"] < rows["contexts"]
    assert (
        await history.assert_texts_can_be_read() == (await texts_of(history.database, last.id))[0]
    )


async def test_a_context_is_kept_that_is_stored_as_a_difference_from_at_the_same_time(
    history: History,
) -> None:
    """The pruner waits for the transaction, and leaves the contexts to the next pass."""
    await history.iterate()
    await history.pass_days(40)
    await prune_after(history.database, 0, RetentionKind.TRANSCRIPTS)
    store = text(
        "insert into contexts (agent_id, sha256, base_sha256, depth, data)"
        " select agent_id, sha256('new'), sha256, depth + 1, '' from contexts order by depth desc limit 1"
        " returning base_sha256"
    )
    async with history.database.transaction() as session:
        base = await session.scalar(store)
        pruned = await prune_after(history.database, 0, RetentionKind.CONTEXTS)
        assert pruned[RetentionKind.CONTEXTS] == 0
    await prune_after(history.database, 0, RetentionKind.CONTEXTS)
    async with history.database.snapshot() as session:
        assert base in set(await session.scalars(select(Context.sha256)))


async def test_the_newest_iterations_are_kept_whatever_their_age(history: History) -> None:
    for _ in range(6):
        await history.iterate(queries=0)
    await history.pass_days(400)
    policy = RetentionPolicy.of_days({RetentionKind.ITERATIONS: 30})
    kept = Pruner(history.database, policy, pause_seconds=0, kept_iterations=4, kept_working=1)
    await kept.prune(RetentionKind.ITERATIONS)
    async with history.database.snapshot() as session:
        numbers = list(await session.scalars(select(Iteration.number).order_by(Iteration.number)))
    assert numbers == [3, 4, 5, 6]
    kept = Pruner(history.database, policy, pause_seconds=0, kept_iterations=0, kept_working=3)
    await kept.prune(RetentionKind.ITERATIONS)
    async with history.database.snapshot() as session:
        numbers = list(await session.scalars(select(Iteration.number).order_by(Iteration.number)))
    assert numbers == [4, 5, 6]


async def test_decided_news_is_deleted_with_iterations(history: History) -> None:
    """Open news stays, whatever its age: a plan has not decided on it."""
    await history.iterate()
    await history.iterate()
    now = func.statement_timestamp()
    ages = {"old": timedelta(days=40), "new": timedelta(days=5), "open": None}
    async with history.database.transaction() as session:
        for name, age in ages.items():
            await session.insert(
                NewsItem,
                id=uuid4(),
                agent_id=history.agent.id,
                kind=NewsKind.DOCUMENT,
                url=f"https://example.org/{name}",
                state=NewsState.OPEN if age is None else NewsState.SKIPPED,
                found_at=now - timedelta(days=50),
                decided_at=None if age is None else now - age,
            )
    await history.pass_days(40)
    await pruner(history.database).prune(RetentionKind.ITERATIONS)
    async with history.database.snapshot() as session:
        urls = set(await session.scalars(select(NewsItem.url)))
    assert urls == {"https://example.org/new", "https://example.org/open"}


async def test_a_kind_without_an_age_is_kept_for_ever(history: History) -> None:
    await history.iterate()
    await history.iterate()
    await history.pass_days(4000)
    rows = await count_rows(history.database)
    await pruner(history.database, dict.fromkeys(RetentionKind, 0)).prune_due()
    assert await count_rows(history.database) == rows | {"retention": len(RetentionKind)}


async def test_one_scheduler_prunes_at_a_time(history: History) -> None:
    await history.iterate()
    await history.iterate()
    await history.pass_days(40)
    async with history.database.transaction() as session:
        assert await session.scalar(pruning_sql.TRY_LOCK)
        assert await pruner(history.database).prune(RetentionKind.ITERATIONS) == 0
    both = [pruner(history.database), pruner(history.database)]
    results = await asyncio.gather(*(each.prune(RetentionKind.ITERATIONS) for each in both))
    assert sum(results) == 1
    assert await find_faults(history.database, history.agent) == []


async def test_a_pass_is_due_after_its_interval_and_is_noted(history: History) -> None:
    await history.iterate()
    await history.iterate()
    await history.pass_days(40)
    due = pruner(history.database)
    await due.prune_due()
    async with history.database.snapshot() as session:
        row = await session.get_one(Retention, RetentionKind.ITERATIONS)
    assert (row.days, row.last_rows, row.all_rows) == (30, 1, 1)
    assert row.pruned_at is not None
    assert row.started_at is not None
    assert row.oldest_at is not None
    assert row.next_at - row.started_at == timedelta(hours=1)
    await history.iterate()
    await due.prune_due()
    async with history.database.snapshot() as session:
        assert await session.scalar(select(func.count(Iteration.id))) == 2
    async with history.database.transaction() as session:
        await session.execute(update(Retention).values(next_at=func.clock_timestamp()))
    await due.prune_due()
    async with history.database.snapshot() as session:
        assert await session.scalar(select(func.count(Iteration.id))) == 1
        row = await session.get_one(Retention, RetentionKind.ITERATIONS)
    assert (row.last_rows, row.all_rows) == (1, 2)


async def test_a_pass_that_takes_too_long_continues_at_once(history: History) -> None:
    await history.iterate()
    await history.iterate()
    await history.pass_days(40)
    hasty = replace(pruner(history.database), pass_seconds=0)
    await hasty.prune_due()
    async with history.database.snapshot() as session:
        row = await session.get_one(Retention, RetentionKind.ITERATIONS)
        assert row.next_at < (await session.execute(select(func.clock_timestamp()))).scalar_one()


TAMPERING: dict[str, str] = {
    "delete from iterations where number = 3": "iterations {[3,4)} were deleted",
    "insert into iterations (id, agent_id, number, why, status, deadline_at) select gen_random_uuid(), agent_id, 1, 'due',"
    " 'completed', now() from iterations limit 1": "iterations {[1,2)} were added",
    "update iterations set transcripts_deleted_at = now() where number = 3": "iterations {[3,4)} have transcripts",
    "update iterations set transcripts_deleted_at = null where number = 2": "iterations {[2,3)} have transcripts",
    "update calls set answer = null where iteration_id = (select id from iterations where number = 3)": (
        "answer of the call"
    ),
    "delete from calls where id = (select id from calls order by coalesce(cost_usd, 0) + assumed_usd desc limit 1)": (
        "USD were spent"
    ),
    "delete from llm_interactions where iteration_id = (select id from iterations where number = 3)": (
        "USD were spent"
    ),
    "delete from call_days": "day of deleted calls",
    "update call_days set cost_usd = cost_usd + 1": "day of deleted calls",
    "delete from pruned_iterations": "record of deleted iterations",
    "update pruned_iterations set numbers = numbers + int4multirange(int4range(3, 4))": (
        "record of deleted iterations"
    ),
}


async def test_what_something_else_has_deleted_is_found(
    history: History, database_url: str, postgres: Postgres, subtests: pytest.Subtests
) -> None:
    for _ in range(2):
        await history.iterate()
    await history.pass_days(20)
    await history.iterate()
    days: dict[RetentionKind, float] = {RetentionKind.TRANSCRIPTS: 10, RetentionKind.ITERATIONS: 15}
    only_first = replace(pruner(history.database, days), kept_iterations=2)
    for kind in days:
        await only_first.prune(kind)
    assert await find_faults(history.database, history.agent) == []
    await history.database.close()
    for statement, fault in TAMPERING.items():
        with subtests.test(statement), cloned(postgres, database_url) as url:
            with psycopg.connect(url) as other:
                other.execute(statement.encode())
            async with connected(url) as database:
                faults = await find_faults(database, history.agent)
            assert any(fault in each for each in faults), faults


MAKE_LETTERS = """
insert into dead_letters (id, service, subject, payload, code, error, attempts, stored_at)
select gen_random_uuid(), 'observer', 's', convert_to(repeat('x', 200), 'utf8'), 'c', 'e', 1,
  now() - make_interval(days => n) from generate_series(1, 100) as n
"""


def limited(database: Database, max_bytes: Mapping[RetentionKind, int]) -> Pruner:
    """One that deletes nothing because of its age."""
    return replace(pruner(database), policy=RetentionPolicy.of_days({}, max_bytes))


async def measure(database: Database, kind: RetentionKind) -> int:
    async with database.snapshot() as session:
        return int((await session.execute(pruning_sql.MEASURE, {"kind": kind})).scalar_one())


async def test_the_oldest_rows_are_deleted_until_the_others_fit(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    whole = await measure(database, RetentionKind.DEAD_LETTERS)
    most = int(whole * 0.4)
    of_size = limited(database, {RetentionKind.DEAD_LETTERS: most})
    assert await of_size.prune(RetentionKind.DEAD_LETTERS) == 60
    async with database.snapshot() as session:
        oldest = await session.scalar(
            text("select max(extract(day from now() - stored_at)) from dead_letters")
        )
        row = await session.get_one(Retention, RetentionKind.DEAD_LETTERS)
    assert oldest == 40
    assert (row.days, row.max_bytes, row.last_rows) == (None, most, 60)
    assert row.bytes is not None
    assert row.bytes <= most
    assert await of_size.prune(RetentionKind.DEAD_LETTERS) == 0


async def test_nothing_is_deleted_that_is_younger_than_the_least_age(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    of_size = limited(database, {RetentionKind.DEAD_LETTERS: 1})
    assert await of_size.prune(RetentionKind.DEAD_LETTERS) == 100 - int(MIN_DAYS - 1)


async def test_the_age_limit_holds_beside_the_limit_of_size(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    for most in (1, 10**9):
        both = RetentionPolicy.of_days(
            {RetentionKind.DEAD_LETTERS: 90}, {RetentionKind.DEAD_LETTERS: most}
        )
        pruned = await replace(pruner(database), policy=both).prune(RetentionKind.DEAD_LETTERS)
        assert pruned == (99 if most == 1 else 0)


async def test_what_is_needed_is_kept_however_large_it_is(history: History) -> None:
    needed = await history.iterate()
    other = await history.iterate()
    await history.converse(1)
    await history.iterate()
    sums = await read_sums(history.database, history.agent)
    await history.fail_step(needed.id)
    await history.pass_days(5)
    young = await history.iterate()
    texts = await texts_of(history.database, needed.id), await texts_of(history.database, young.id)
    of_size = limited(history.database, dict.fromkeys(RetentionKind, 1))
    async with history.database.transaction() as session:
        await session.execute(text("update dead_letters set stored_at = now()"))
    sums = await read_sums(history.database, history.agent)
    for kind in RetentionKind:
        await of_size.prune(kind)
    assert texts == (
        await texts_of(history.database, needed.id),
        await texts_of(history.database, young.id),
    )
    async with history.database.snapshot() as session:
        assert await session.get(Iteration, other.id) is None
    await history.assert_texts_can_be_read()
    assert await read_sums(history.database, history.agent) == sums
    assert await find_faults(history.database, history.agent) == []


async def test_transcripts_shrink_to_their_limit(history: History) -> None:
    for _ in range(20):
        await history.iterate()
        await history.pass_days(1)
    whole = await measure(history.database, RetentionKind.TRANSCRIPTS)
    of_size = limited(history.database, {RetentionKind.TRANSCRIPTS: whole // 2})
    assert await of_size.prune(RetentionKind.TRANSCRIPTS) > 0
    async with history.database.snapshot() as session:
        kept = select(Iteration.number).where(Iteration.transcripts_deleted_at.is_(None))
        numbers = list(await session.scalars(kept.order_by(Iteration.number)))
    assert numbers == list(range(numbers[0], 21))
    assert 9 <= len(numbers) <= 11
    left = await measure(history.database, RetentionKind.TRANSCRIPTS)
    assert whole * 0.4 < left < whole * 0.6


async def test_a_pass_is_due_for_a_kind_with_only_a_limit_of_size(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text(MAKE_LETTERS))
    rows = await count_rows(database)
    await limited(database, {}).prune_due()
    assert (await count_rows(database))["dead_letters"] == rows["dead_letters"]
    await limited(database, {RetentionKind.DEAD_LETTERS: 1}).prune_due()
    assert (await count_rows(database))["dead_letters"] == 1
    async with database.snapshot() as session:
        measured = select(Retention.kind).where(Retention.bytes.is_not(None))
        assert list(await session.scalars(measured)) == [RetentionKind.DEAD_LETTERS]


@pytest.mark.parametrize("kind", RetentionKind)
async def test_each_kind_is_measured(history: History, kind: RetentionKind) -> None:
    await history.iterate()
    size = await measure(history.database, kind)
    has_rows = (RetentionKind.TRANSCRIPTS, RetentionKind.ITERATIONS, RetentionKind.CONTEXTS)
    assert (size > 0) == (kind in has_rows)
    async with history.database.snapshot() as session:
        oldest = await session.scalar(pruning_sql.OLDEST_SHARE[kind], {"share": 0.5})
    assert (oldest is not None) == (size > 0)


MAKE_NEWS = """
insert into news_items (id, agent_id, kind, url, title, state, found_at, decided_at)
select gen_random_uuid(), id, 'page', 'https://example.org/' || n, repeat('x', 100),
  case when decided then 'read' else 'open' end, now(), case when decided then now() end
from agents, generate_series(1, 100) as n, unnest(array[true, false]) as decided
"""


async def test_decided_news_counts_among_iterations(history: History) -> None:
    """The others are not deleted with them."""
    before = {kind: await measure(history.database, kind) for kind in RetentionKind}
    async with history.database.transaction() as session:
        await session.execute(text(MAKE_NEWS))
    grown = {kind: await measure(history.database, kind) - before[kind] for kind in RetentionKind}
    news = grown.pop(RetentionKind.ITERATIONS)
    assert 100 * 200 < news < 100 * 400
    assert set(grown.values()) == {0}


async def test_a_large_table_is_sampled(database: Database) -> None:
    """Of rows of the same size, a part of the blocks shows the size of all."""
    params = {"kind": RetentionKind.DEAD_LETTERS}
    many = MAKE_LETTERS.replace("generate_series(1, 100)", "generate_series(1, 20000)")
    async with database.transaction() as session:
        await session.execute(text(many))
        whole = (await session.execute(pruning_sql.MEASURE, params)).scalar_one()
        definition: str = (
            await session.execute(
                text("select pg_get_functiondef('retained_bytes(text)'::regprocedure)")
            )
        ).scalar_one()
        assert definition.count("4000.0") == 1
        await session.execute(text(definition.replace("4000.0", "200.0").replace(":", r"\:")))
        sampled = (await session.execute(pruning_sql.MEASURE, params)).scalar_one()
        await session.rollback()
    assert sampled != whole
    assert whole * 0.6 < sampled < whole * 1.4


def test_sizes_are_settings() -> None:
    assert Settings().retention_policy.max_bytes == {}
    settings = Settings.model_validate({"retention_pages_bytes": 5 * 10**9})
    assert settings.retention_policy.max_bytes == {RetentionKind.PAGES: 5 * 10**9}
    never = Settings.model_validate({"retention_pages_bytes": "never"})
    assert never.retention_policy.max_bytes == {}
    with pytest.raises(ValueError, match="give a number"):
        Settings.model_validate({"retention_pages_bytes": -1})


DAYS: Final = 120
STEADY_DAY: Final = 60
MAX_CHANGE: Final = 0.05
FEW_BYTES: Final = 5 * 8192
"""Some pages more or less make no difference."""
FEW_INDEX_BYTES: Final = 128 * 1024
"""Indexes of random keys are small here, and their pages are split at random."""


async def record(database: Database, settings: Settings, count: int) -> Agent:
    """An agent that has done real iterations on the sandbox."""
    # Paused, so that it has no iteration but those that are requested.
    agent = await make_agent(database, active=False)
    async with running_services(settings):
        for number in range(1, count + 1):
            async with database.transaction() as session:
                row = await session.get_one(Agent, agent.id)
                row = await change(
                    session, row, run_requested_at=await iterations.database_time(session)
                )
            iteration = await ended_iteration(database, agent, number)
            assert iteration.status == IterationStatus.COMPLETED
    await publish_ends(database)
    return agent


async def simulate(
    database: Database, settings: Settings, agent: Agent, days: int, **others: int
) -> Simulation:
    return await Simulation.begin(
        database,
        settings.database_url,
        agent.id,
        policy=settings.retention_policy,
        days=days,
        **{"count": 1, "recorded": 2, **others},
    )


@pytest.mark.slow
async def test_tables_keep_their_size(database: Database, sandbox_settings: Settings) -> None:
    agent = await record(database, sandbox_settings, 2)
    simulation = await simulate(database, sandbox_settings, agent, DAYS)
    for day in range(DAYS):
        await simulation.run_day(day, 2)
        if day + 1 in (STEADY_DAY, DAYS):
            await simulation.measure(day + 1)
    for sizes, few in (
        (simulation.row_sizes, FEW_BYTES),
        (simulation.sizes, FEW_INDEX_BYTES),
    ):
        before, after = sizes[STEADY_DAY], sizes[DAYS]
        for table in PRUNED_TABLES:
            change = abs(after[table] - before[table])
            assert change <= max(few, MAX_CHANGE * before[table]), (table, before, after)
    assert all(simulation.pruned.values())
    assert await simulation.find_faults() == []
