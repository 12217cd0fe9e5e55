"""A restore drill: a backup while agents work, its restore on an empty machine, and what must be the same."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import Connection, sql
from sqlalchemy import text

from cli.backup.archive import CORPORA
from cli.backup.create import write_backup
from cli.backup.database import Snapshot, open_snapshot
from cli.backup.encryption import Encryption
from cli.backup.output import open_output
from cli.local.postgres import EmbeddedPostgres
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.database.transaction import Transaction
from shared.graph.scope import GraphScope
from tests.support import budget_audit
from tests.support.backup import digest_tables
from tests.support.canonical_graph import graph_fingerprint
from tests.support.chaos.evidence import Result, faults, list_events_since, load_result
from tests.support.chaos.installation import DATABASE
from tests.support.chaos.mission import Mission
from tests.support.chaos.scenario_run import SETTLE_SECONDS, ScenarioRunner
from tests.support.graph.verification import breaks
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import wait_until

AGENTS: Final = 4
STEPS_EACH: Final = 7
"""Of an iteration: the plan, 3 queries, 2 insights, the advice."""
RESTORE_SECONDS: Final = 120.0
NOT_PUBLISHED: Final = "was never published"
END: Final = "iteration.completed"


@dataclass(frozen=True)
class State:
    """Everything in a database that a restore must give back."""

    tables: Mapping[str, tuple[int, str]]
    """Number of rows and digest of the rows, by table."""
    graphs: Sequence[str]
    """The canonical hash of each agent's graph."""
    inbox: Sequence[tuple[Any, ...]]
    budgets: Sequence[tuple[Any, ...]]
    roots: Sequence[tuple[Any, ...]]
    """The newest entry of the journal of each agent."""
    answered_calls: int
    ended_agents: frozenset[UUID]
    """Agents whose iteration had ended."""


async def load_state(url: str, agents: Sequence[Agent], snapshot_id: str | None = None) -> State:
    """The state of the database; with a snapshot, as that sees it."""
    database = Database(url, name="test")
    try:
        async with database.transaction() as session:
            await _use(session, snapshot_id)
            graphs = [
                await graph_fingerprint(session, GraphScope(agent.owner_id, agent.id))
                for agent in agents
            ]
    finally:
        await database.close()
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        if snapshot_id is not None:
            connection.execute(
                sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot_id))
            )
        return _load(connection, graphs)


async def _use(session: Transaction, snapshot_id: str | None) -> None:
    await session.execute(text("set transaction isolation level repeatable read"))
    if snapshot_id is not None:
        await session.execute(text(f"set transaction snapshot '{snapshot_id}'"))


def _load(connection: Connection[Any], graphs: Sequence[str]) -> State:
    def rows(query: str) -> list[tuple[Any, ...]]:
        return connection.execute(query).fetchall()

    return State(
        tables=digest_tables(connection),
        graphs=graphs,
        inbox=rows("select id, agent_id, title, summary, created_at from inbox_items order by id"),
        budgets=rows("select * from budget_days order by scope, day"),
        roots=rows("select agent_id, seq, hash from graph_head order by agent_id"),
        answered_calls=rows("select count(*) from calls where answered_at is not null")[0][0],
        ended_agents=frozenset(
            agent for (agent,) in rows("select agent_id from iterations where status <> 'running'")
        ),
    )


@dataclass
class Drill:
    """One backup of `source` under load, and its restore in the folder `target`."""

    file: Path
    target: Path
    seed: int
    agents: list[Agent] = field(default_factory=list)
    at_backup: State | None = None
    backup_seconds: float = 0.0
    restore_seconds: float = 0.0

    @property
    def state(self) -> State:
        assert self.at_backup is not None
        return self.at_backup

    async def back_up_under_load(self, source: ScenarioRunner) -> None:
        """Starts agents, and takes a backup after a random number of their steps."""
        source.sandbox.reset()
        self.agents = [await source.begin_another(self.seed + number) for number in range(AGENTS)]
        steps = Random(self.seed).randrange(AGENTS * STEPS_EACH)
        await wait_until(
            lambda: self._has_ended_steps(source, steps), what=f"{steps} steps to end", seconds=60.0
        )
        with open_snapshot(source.installation.settings.database_url) as snapshot:
            started = time.monotonic()
            await asyncio.to_thread(self._write, snapshot)
            self.backup_seconds = time.monotonic() - started
            self.at_backup = await load_state(snapshot.url, self.agents, snapshot.id)

    def restore(self) -> None:
        """With the command, as on another machine."""
        started = time.monotonic()
        subprocess.run(
            [
                *(sys.executable, "-m", "cli", "restore", str(self.file)),
                *("--data", str(self.target)),
            ],
            check=True,
            timeout=RESTORE_SECONDS,
        )
        self.restore_seconds = time.monotonic() - started

    async def load_restored_state(self) -> State:
        """The state before any service has started."""
        postgres = EmbeddedPostgres(self.target / "postgres", self.target / "postgres.log")
        postgres.start()
        try:
            return await load_state(postgres.url(DATABASE), self.agents)
        finally:
            postgres.stop()

    def script(self, sandbox: Sandbox) -> None:
        """Lets the model give the same answers as before; the sandbox's meter starts at zero."""
        sandbox.reset()
        for agent in self.agents:
            Mission(agent.id, agent.name).script_model(sandbox)

    async def finish(self, restored: ScenarioRunner) -> "Finished":
        """Waits until the restored installation has ended everything that was open."""
        for agent in self.agents:
            await restored.wait_until_ended(agent)
        await wait_until(
            lambda: self._is_settled(restored),
            what="the last events to be published and received",
            seconds=SETTLE_SECONDS,
        )
        async with restored.database.transaction() as session:
            scopes = [GraphScope(agent.owner_id, agent.id) for agent in self.agents]
            return Finished(
                results=[await load_result(session, scope) for scope in scopes],
                faults=await self._faults(restored, session),
                calls=await _count(session, "select count(*) from calls"),
                billed=sum(restored.sandbox.billed().values()),
                repeated=restored.sandbox.repeated(),
            )

    async def _is_settled(self, restored: ScenarioRunner) -> bool:
        async with restored.database.transaction() as session:
            return not await self._faults(restored, session) and not await _count(
                session, "select count(*) from iterations where end_published_at is null"
            )

    async def _faults(self, restored: ScenarioRunner, session: Transaction) -> list[str]:
        events = await list_events_since(restored.bus, 1)
        found = await budget_audit.faults(session)
        if reservations := await budget_audit.reserved(session):
            found.append(f"{reservations} calls are still reserved")
        for agent in self.agents:
            found += [
                fault
                for fault in await faults(session, events, agent.id)
                # What was published before the backup is not published again. The end of an iteration must be.
                if not fault.endswith(NOT_PUBLISHED)
                or (END in fault and agent.id not in self.state.ended_agents)
            ]
            scope = GraphScope(agent.owner_id, agent.id)
            found += [f"{agent.name}: {fault}" for fault in await breaks(session, scope)]
        return found

    def _write(self, snapshot: Snapshot) -> None:
        with open_output(self.file) as output:
            write_backup(snapshot, self.file.with_name(CORPORA), output, Encryption(), print)

    async def _has_ended_steps(self, source: ScenarioRunner, number: int) -> bool:
        async with source.database.transaction() as session:
            ended = "select count(*) from steps where ended_at is not null"
            return await _count(session, ended) >= number


@dataclass(frozen=True)
class Finished:
    """What the restored installation has made of what was open."""

    results: Sequence[Result]
    faults: Sequence[str]
    calls: int
    """In the ledger, of all agents."""
    billed: int
    """By the sandbox since the restore."""
    repeated: int


async def _count(session: Transaction, query: str) -> int:
    return int((await session.execute(text(query))).scalar_one())
