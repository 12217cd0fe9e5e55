"""Contexts are stored as differences from earlier ones, and read back whatever has happened to the process."""

import random
from hashlib import sha256
from uuid import UUID

import pytest
from sqlalchemy import delete, select, text, update

from shared.agents import contexts
from shared.agents.contexts import MAX_DEPTH, UnreadableContextError, load_texts
from shared.database.engine import Database
from shared.database.tables import Agent, Context, Interaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import Phase
from shared.llm import phase_run_store
from shared.llm.phase_run_store import NewInteraction
from shared.workflow.leases import Lease
from tests.support.claims import AGENT_ROW
from tests.support.factories import make_agent, make_iteration
from tests.support.fences import EVERYONE
from tests.support.seeds import first_seed, repeatable


class Runs:
    """Phase runs of one agent, each with a context of its own."""

    def __init__(self, database: Database, agent: Agent, step_id: UUID) -> None:
        self.database = database
        self.agent = agent
        self._step_id = step_id
        self.phases = list(Phase)
        """The phases that have not begun."""
        self.messages: dict[Phase, str] = {}

    @classmethod
    async def of(cls, database: Database, name: str = "Battery watch") -> "Runs":
        agent = await make_agent(database, name=name)
        return cls(database, agent, (await make_iteration(database, agent)).observe.id)

    async def begin(self, context: str, database: Database | None = None) -> None:
        """Begin the next run, in the pipeline that workers use. Each database object stands for a process."""
        database = database or self.database
        phase = self.phases.pop()
        self.messages[phase] = f"Mission\n{context}\nTask"
        lease = Lease(
            self._step_id, None, self.agent.id, self.agent.owner_id, 1, "test", 60, AGENT_ROW
        )
        run = NewInteraction(
            database,
            lease,
            phase,
            model="m",
            system_prompt="",
            request={"messages": [{"role": "user", "content": self.messages[phase]}], "tools": []},
            context=context,
        )
        unit = UnitOfWork(database, EVERYONE)
        run.write_with(unit)
        await unit.commit()

    async def check(self) -> None:
        """Every run is read back as it was."""
        async with self.database.transaction() as session:
            runs = list(await session.scalars(select(Interaction)))
            requests = await phase_run_store.load_requests(session, runs)
        assert {
            run.phase: requests[run.id]["messages"][0]["content"] for run in runs
        } == self.messages

    async def depths(self) -> list[int]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(Context.depth).order_by(Context.depth)))


@pytest.fixture
async def runs(database: Database) -> Runs:
    return await Runs.of(database)


def lines(first: int, last: int) -> str:
    return "\n".join(
        f"- [node:{UUID(bytes=sha256(bytes([number])).digest()[:16])}] a line of the graph"
        for number in range(first, last)
    )


async def test_a_context_is_stored_as_its_difference_from_the_last_one(runs: Runs) -> None:
    for number in range(4):
        await runs.begin(lines(number, 200 + number))
    await runs.check()
    assert await runs.depths() == [0, 1, 2, 3]
    async with runs.database.transaction() as session:
        sizes = await session.scalars(
            text("select octet_length(data) from contexts order by depth")
        )
        full, *differences = sizes
    assert max(differences) < full / 5


async def test_the_same_context_is_stored_once(runs: Runs) -> None:
    for _ in range(3):
        await runs.begin(lines(0, 50))
    await runs.check()
    assert await runs.depths() == [0]


async def test_a_chain_of_differences_has_an_end(database: Database) -> None:
    agent = await make_agent(database)
    for number in range(2 * MAX_DEPTH + 3):
        stored = contexts.as_difference(database, agent.id, lines(number, 100 + number))
        assert stored.depth == number % (MAX_DEPTH + 1)
        contexts.remember(database, agent.id, lines(number, 100 + number), stored)


async def test_a_context_whose_base_has_disappeared_is_stored_in_full(runs: Runs) -> None:
    """As after PostgreSQL was restored from a backup while the service kept running."""
    await runs.begin(lines(0, 100))
    async with runs.database.transaction() as session:
        await session.execute(delete(Interaction))
        await session.execute(delete(Context))
    runs.messages.clear()
    await runs.begin(lines(1, 101))
    await runs.begin(lines(1, 101))
    await runs.check()
    assert await runs.depths() == [0]


async def test_a_changed_context_is_reported(runs: Runs) -> None:
    await runs.begin(lines(0, 100))
    await runs.begin(lines(1, 101))
    async with runs.database.transaction() as session:
        data = contexts.compress(lines(5, 105))
        await session.execute(update(Context).where(Context.depth == 0).values(data=data))
        keys = [
            (row.agent_id, row.sha256)
            for row in await session.execute(select(Context.agent_id, Context.sha256))
        ]
        for key in keys:
            with pytest.raises(UnreadableContextError, match="missing or was changed"):
                await load_texts(session, [key])
        with pytest.raises(UnreadableContextError):
            await load_texts(session, [(runs.agent.id, b"unknown")])


async def test_random_runs_of_several_processes_are_read_back(
    database: Database, database_url: str
) -> None:
    seed = first_seed()
    chance = random.Random(seed)
    processes = [database, *(Database(database_url, name=f"process {n}") for n in range(2))]
    with repeatable(seed):
        agents = [await Runs.of(database, f"Agent {number}") for number in range(3)]
        while any(runs.phases for runs in agents):
            runs = chance.choice([each for each in agents if each.phases])
            start = chance.randrange(5)
            await runs.begin(lines(start, start + chance.randrange(60)), chance.choice(processes))
        async with database.transaction() as session:
            stored = list(await session.scalars(select(Interaction)))
            requests = await phase_run_store.load_requests(session, stored)
        for runs in agents:
            assert {
                run.phase: requests[run.id]["messages"][0]["content"]
                for run in stored
                if run.agent_id == runs.agent.id
            } == runs.messages
    for process in processes[1:]:
        await process.close()
