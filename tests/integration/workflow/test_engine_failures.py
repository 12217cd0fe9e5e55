"""Trouble: engines that die under the actors, poison, deletions, doubles; nothing lost, nothing paid twice."""

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, select

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from services.observer.prompts import MAX_QUERIES
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import DeadLetter, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.codec import encode
from shared.events.models import PlanProduced
from shared.events.topology import STREAM
from shared.runtime import consumer as actor_module
from shared.runtime.bus import Bus
from shared.runtime.consumer import ConsumerLostError
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.actors import BUILDERS, ended_iteration, idle, running, told
from tests.support.levers import Sandbox
from tests.support.making import make_agent
from tests.support.processes import nothing, observer_process, ready
from tests.support.steps import observer, settled, started, status_is
from tests.support.steps import running as running_actor
from tests.support.waiting import until

EVERYBODY = tuple(BUILDERS)


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    return {
        **os.environ,
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "OPENAI_API_KEY": "sk-very-secret",
    }


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[EmbeddedNats]:
    """A server that the test may kill."""
    server = EmbeddedNats(tmp_path / "data", free_port(), tmp_path / "nats.log")
    server.start()
    yield server
    server.stop()


async def test_actors_ride_out_the_death_of_nats(
    sandbox_settings: Settings, own_nats: EmbeddedNats, database: Database, levers: Sandbox
) -> None:
    settings = sandbox_settings.model_copy(update={"nats_url": own_nats.url})
    await provision_stream(settings)
    levers.faults({"kind": "latency", "latency_seconds": 0.1, "always": True})
    agent = await make_agent(database)
    async with running(settings):
        await until(lambda: querying(database), what="a query to be worked on")
        os.kill(own_nats.pid, signal.SIGKILL)
        await until(lambda: ended(own_nats), what="NATS to be dead")
        spent, began = time.process_time(), time.monotonic()
        await until(lambda: passed(began, 2.0), what="two seconds without NATS")
        assert time.process_time() - spent < 1.5, "nobody spins"
        own_nats.start()
        done = await ended_iteration(database, agent, 1, seconds=30)
    assert (done.status, done.errors) == (IterationStatus.COMPLETED, [])
    assert levers.repeated() == 0


async def querying(database: Database) -> bool:
    async with database.transaction() as session:
        wanted = (Step.kind == StepKind.QUERY) & (Step.status == StepStatus.RUNNING)
        return await session.scalar(select(Step.id).where(wanted).limit(1)) is not None


async def ended(engine: EmbeddedNats) -> bool:
    return not engine.alive()


async def passed(began: float, seconds: float) -> bool:
    return time.monotonic() - began > seconds


@pytest.mark.parametrize("lost", ["consumer", "connection"])
async def test_an_actor_that_lost_the_bus_for_good_says_so_and_ends(
    settings: Settings, bus: Bus, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr(actor_module, "WATCH_SECONDS", 0.1)
    working = observer(settings, nothing)
    task = asyncio.create_task(working.run())
    await until(lambda: ready(working), what="the actor to be ready")
    if lost == "consumer":
        await bus.jetstream.delete_consumer(STREAM, "observer")
    else:
        await working.bus.client.close()
    with pytest.raises(ConsumerLostError, match=lost):
        await asyncio.wait_for(task, 10)


async def test_poison_becomes_dead_letters_and_hinders_nobody(
    settings: Settings, database: Database, bus: Bus
) -> None:
    misplaced = PlanProduced.of(
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=uuid4(),
        occurred_at="2026-01-01T00:00:00Z",
        queries=0,
        insights=0,
    )
    poison = [b"", b"\x00\xff", b'{"type": "\\u0000"}', b"[" * 500_000, encode(misplaced)]
    for payload in [*poison, b'{"type": "%s"}' % (b"y" * 500_000)]:
        await bus.jetstream.publish("iteration.started", payload)
    step = await started(database, bus)
    async with running_actor(observer(settings, nothing)):
        await until(lambda: settled(bus), what="every message to be acked")
    assert await status_is(database, step, StepStatus.COMPLETED)
    async with database.transaction() as session:
        letters = list(await session.scalars(select(DeadLetter)))
    codes = Counter(letter.code for letter in letters)
    assert codes == {"unreadable_event": 3, "unknown_event": 2, "misplaced_event": 1}
    assert max(len(letter.error) for letter in letters) < 3000


async def test_workers_of_a_deleted_agent_end_quietly(
    sandbox_settings: Settings, database: Database, bus: Bus, levers: Sandbox
) -> None:
    levers.faults({"kind": "latency", "latency_seconds": 0.2, "always": True})
    agent = await make_agent(database)
    async with running(sandbox_settings):
        await until(lambda: querying(database), what="a query to be worked on")
        async with database.transaction() as session:
            await agents.delete_agent(session, agent.id)
        for name in EVERYBODY:
            await until(partial(idle, bus, name), what=f"the {name} to be idle")
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(DeadLetter)) == 0


async def test_many_schedulers_aggregators_and_workers_make_one_iteration_once(
    sandbox_settings: Settings, database: Database, bus: Bus, levers: Sandbox
) -> None:
    query = {"objective": "lithium", "reasoning": "why not", "searchHints": ["lithium"]}
    plan = {
        "queries": [query | {"objective": f"lithium {n}"} for n in range(MAX_QUERIES)],
        "insights": [],
    }
    levers.script({"phase": "observer", "content": plan})
    levers.script({"phase": "knowledge_acquisition", "content": "Nothing found.", "times": None})
    levers.script({"phase": "graph_construction", "content": "Nothing to add.", "times": None})
    agent = await make_agent(database)
    crowd = ("scheduler",) * 3 + ("aggregator",) * 2 + ("researcher",) * 2 + ("observer",)
    async with running(sandbox_settings, crowd):
        done = await ended_iteration(database, agent, 1)
        for name in ("researcher", "aggregator"):
            await until(partial(idle, bus, name), what=f"the {name} to be idle")
    assert (done.status, done.errors) == (IterationStatus.COMPLETED, [])
    assert Counter(event.subject for event in await told(bus)) == {
        "iteration.started": 1,
        "plan.produced": 1,
        "query.requested": MAX_QUERIES,
        "query.completed": MAX_QUERIES,
        "iteration.completed": 1,
    }
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Iteration)) == 1
        assert set(await session.scalars(select(Step.epoch))) == {1}
    assert (levers.billed()["llm"], levers.repeated("llm")) == (1 + 4 * MAX_QUERIES, 0)


async def answer(url: str) -> int:
    async with httpx.AsyncClient() as client:
        try:
            return (await client.get(url)).status_code
        except httpx.TransportError:
            return 0


async def test_a_process_tells_its_health_and_ends_with_0_when_told_to(
    environment: dict[str, str],
) -> None:
    port = free_port()
    process = await observer_process(environment, port)

    async def is_ready() -> bool:
        return await answer(f"http://127.0.0.1:{port}/health/ready") == 200

    await until(is_ready, what="the process to be ready")
    assert await answer(f"http://127.0.0.1:{port}/health/live") == 200
    process.send_signal(signal.SIGTERM)
    output, _ = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0
    assert b'"event": "stopped"' in output
    assert b"very-secret" not in output


async def test_a_process_whose_port_is_taken_says_so_and_ends(
    environment: dict[str, str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = await observer_process(environment, taken.getsockname()[1])
        output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode not in (0, None)
    assert b"address already in use" in output
