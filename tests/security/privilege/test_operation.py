"""Waiting, retention, upgrades, metrics and agents that do not work, under the role of the service that executes each."""

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from math import isnan
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import delete, func, select, update

from cli.findings import Verdict
from cli.upgrade import examine_upgrade
from services.aggregator.handler import Aggregate
from services.scheduler import app as scheduler
from shared.agents import agents
from shared.billing import call_ledger
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Agent, Call, InboxItem, Iteration, Step
from shared.enums import RetentionKind
from shared.runtime.connections import create_database
from shared.workflow import attention, iterations, steps
from shared.workflow.retention import RetentionPolicy
from shared.workflow.steps import Pauses
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent
from tests.support.iteration_courses import KEY_ERROR, find_attention, notices, run_courses
from tests.support.observability.scraping import scrape, value
from tests.support.paths import ROOT
from tests.support.retention.history import History
from tests.support.retention.pruning import count_rows, find_faults, pruner, read_sums
from tests.support.secured_installation import SecuredInstallation
from tests.support.spending import Spender
from tests.support.table_rows import remove


async def record(database: Database, agent: Agent) -> None:
    batch = Batch()
    batch.add(attention.lock_agent(agent.id))
    batch.add(attention.record_end(agent.id, [KEY_ERROR]))
    await database.write(batch)


async def test_services_may_record_and_end_what_needs_attention(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    async with AsyncExitStack() as stack:
        aggregator, assistant, api = (
            create_database(installation.settings(name), name, pool_size=1)
            for name in ("aggregator", "assistant", "api")
        )
        for database in (aggregator, assistant, api):
            stack.push_async_callback(database.close)
        agent = await make_agent(owner_database, name="Failing")
        await run_courses(owner_database, agent, ["failed"] * 2)
        async with owner_database.transaction() as session:
            await session.execute(delete(InboxItem).where(InboxItem.agent_id == agent.id))
        await record(aggregator, agent)
        [notice] = await notices(owner_database, agent)
        assert notice.resolved_at is None
        assert await find_attention(api, agent) is not None
        for service in (assistant, api):
            await service.run(agents.end_backoff(agent.id))
        await api.run(agents.wake(agent.id))
        await run_courses(owner_database, agent, ["wrote nodes"])
        async with owner_database.transaction() as session:
            reopened = update(InboxItem).where(InboxItem.agent_id == agent.id)
            await session.execute(reopened.values(resolved_at=None))
        await record(aggregator, agent)
        [notice] = await notices(owner_database, agent)
        assert notice.resolved_at is not None
        async with owner_database.transaction() as session:
            await remove(session, await session.get_one(Agent, agent.id))


DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "agent.json"
MACROS = {
    "$__timeFrom()": "'2026-01-01T00:00:00Z'",
    "$__timeTo()": "'2026-01-02T00:00:00Z'",
    "$agent": "00000000-0000-0000-0000-000000000001",
}


def queries() -> dict[str, str]:
    dashboard = json.loads(DASHBOARD.read_text())
    found = {
        panel["title"]: target["rawSql"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    return found | {each["label"]: each["query"] for each in dashboard["templating"]["list"]}


async def test_the_scheduler_may_read_what_it_measures(installation: SecuredInstallation) -> None:
    service = scheduler.build(installation.settings("scheduler"))
    samples = await scrape(service)
    await service.database.close()
    assert value(samples, "vigil_database_up") == 1
    assert value(samples, "vigil_dead_letters") == 0
    assert (value(samples, "vigil_database_size_bytes") or 0) > 0
    assert isnan(value(samples, "vigil_budget_left_usd") or 0)


@pytest.mark.parametrize("title", queries())
def test_the_operator_may_read_what_the_dashboard_shows(
    installation: SecuredInstallation, title: str
) -> None:
    query = queries()[title]
    for macro, text in MACROS.items():
        query = query.replace(macro, text)
    with installation.connect("operator") as connection:
        assert connection.execute(query.encode()).fetchall() == []


def test_the_dashboards_role_cannot_read_what_agents_know(
    installation: SecuredInstallation,
) -> None:
    with installation.connect("operator") as connection:
        for table in ("graph_nodes", "messages", "sources", "llm_interactions", "users"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from {table}".encode())


DELETED = ("iterations", "steps", "llm_interactions", "calls", "contexts", "pinned_contexts")


async def test_the_scheduler_prunes_with_its_own_rights(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    history = History(owner_database, await make_agent(owner_database, name=str(uuid4())))
    for turn in range(3):
        await history.iterate()
        await history.converse(turn)
    sums = await read_sums(owner_database, history.agent)
    await history.pass_days(40)
    own = create_database(installation.settings("scheduler"), "scheduler")
    try:
        of_scheduler = pruner(own)
        pruned = {kind: await of_scheduler.prune(kind) for kind in RetentionKind}
        of_size = RetentionPolicy.of_days({}, dict.fromkeys(RetentionKind, 1))
        for kind in RetentionKind:
            await replace(of_scheduler, policy=of_size).prune(kind)
    finally:
        await own.close()
    assert pruned[RetentionKind.ITERATIONS] == 2
    assert pruned[RetentionKind.TRANSCRIPTS] > 3
    assert pruned[RetentionKind.CONTEXTS] > 0
    rows = await count_rows(owner_database)
    assert (rows["iterations"], rows["contexts"]) == (1, 0)
    assert (await read_sums(owner_database, history.agent)).summary == sums.summary
    assert await find_faults(owner_database, history.agent) == []


@pytest.mark.parametrize("table", ["calls", "llm_interactions"])
async def test_the_scheduler_cannot_delete_what_is_new(
    installation: SecuredInstallation, owner_database: Database, table: str
) -> None:
    history = History(owner_database, await make_agent(owner_database, name=str(uuid4())))
    await history.iterate()
    rows = await count_rows(owner_database)
    with installation.connect("scheduler") as connection:
        of_agent = {"agent": history.agent.id}
        delete = f"delete from {table} where agent_id = %(agent)s"
        assert connection.execute(delete, of_agent).rowcount == 0
    assert await count_rows(owner_database) == rows


def test_the_migrations_own_keys_are_enough(installation: SecuredInstallation) -> None:
    findings = list(examine_upgrade(installation.migrator()))
    assert [each for each in findings if each.verdict is Verdict.BAD] == []
    assert {"version", "database", "nats"} <= {each.name for each in findings}


async def test_services_may_store_waits_and_defer_deadlines(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    spender = await Spender.of(owner_database, name="Waiting")
    attempt = await spender.reserved("1")
    observer = create_database(installation.settings("observer"), "observer", pool_size=1)
    aggregator = create_database(installation.settings("aggregator"), "aggregator", pool_size=1)
    try:
        await call_ledger.report_progress(observer, attempt.call_id, 7)
        async with observer.transaction() as session:
            await steps.wait(session, spender.lease, "away", pauses=Pauses(0.0, 0.0))
        async with observer.transaction() as session:
            claim = await claims.claim(session, spender.lease.step_id, "observer")
            assert isinstance(claim, Claimed)
            await steps.wait_ending(claim.lease).execute(session)
        async with owner_database.transaction() as session:
            assert (await session.get_one(Call, attempt.call_id)).received_chars == 7
            day_ago = func.clock_timestamp() - timedelta(days=1)
            of_agent = Iteration.agent_id == spender.agent.id
            await session.execute(update(Iteration).where(of_agent).values(deadline_at=day_ago))
        async with aggregator.transaction() as session:
            stalled = iterations.list_stalled(600, look_again_seconds=60)
            assert await stalled.execute(session) == []
            deadline = await session.scalar(select(Iteration.deadline_at).where(of_agent))
            assert deadline is not None
            assert deadline > await iterations.database_time(session)
        assert spender.lease.iteration_id is not None
        [end] = await Aggregate(aggregator).pass_deadline(spender.lease.iteration_id, 600)
        assert end.subject == "iteration.failed"
        async with owner_database.transaction() as session:
            step = await session.get_one(Step, spender.lease.step_id)
            await remove(session, await session.get_one(Agent, spender.agent.id))
        assert (step.waits, step.waiting_since) == (1, None)
    finally:
        await observer.close()
        await aggregator.close()
