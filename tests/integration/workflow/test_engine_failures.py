"""Killed engines, invalid messages, deletions and replicas: no work is lost and no call is paid twice."""

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from functools import partial
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
from shared.runtime import consumer as service_module
from shared.runtime.bus import Bus
from shared.runtime.consumer import ConsumerLostError
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.processes import nothing, observer_process, ready
from tests.support.running_services import (
    BUILDERS,
    ended_iteration,
    is_idle,
    list_events,
    running_services,
)
from tests.support.sandbox_control import Sandbox
from tests.support.steps import (
    observer,
    observer_is_idle,
    request_observe_step,
    running_service,
    status_is,
)
from tests.support.waiting import wait_until

ALL_SERVICES = tuple(BUILDERS)


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    return {
        **os.environ,
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "OPENAI_API_KEY": "sk-very-secret",
    }


async def test_services_survive_a_kill_of_nats(
    sandbox_settings: Settings, own_nats: EmbeddedNats, database: Database, sandbox_control: Sandbox
) -> None:
    settings = sandbox_settings.model_copy(update={"nats_url": own_nats.url})
    await provision_stream(settings)
    sandbox_control.faults({"kind": "latency", "latency_seconds": 0.1, "always": True})
    agent = await make_agent(database)
    async with running_services(settings):
        await wait_until(lambda: querying(database), what="a query to be worked on")
        os.kill(own_nats.pid, signal.SIGKILL)
        await wait_until(lambda: is_dead(own_nats), what="NATS to be dead")
        cpu_seconds, began = time.process_time(), time.monotonic()
        await wait_until(lambda: has_passed(began, 2.0), what="two seconds without NATS")
        assert time.process_time() - cpu_seconds < 1.5, "no busy loop"
        own_nats.start()
        iteration = await ended_iteration(database, agent, 1, seconds=30)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    assert sandbox_control.repeated() == 0


async def querying(database: Database) -> bool:
    async with database.transaction() as session:
        condition = (Step.kind == StepKind.QUERY) & (Step.status == StepStatus.RUNNING)
        return await session.scalar(select(Step.id).where(condition).limit(1)) is not None


async def is_dead(engine: EmbeddedNats) -> bool:
    return not engine.alive()


async def has_passed(began: float, seconds: float) -> bool:
    return time.monotonic() - began > seconds


async def test_a_service_that_lost_its_connection_for_good_exits_with_an_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "WATCH_SECONDS", 0.1)
    consumer = observer(settings, nothing)
    task = asyncio.create_task(consumer.run())
    await wait_until(lambda: ready(consumer), what="the service to be ready")
    await consumer.bus.client.close()
    with pytest.raises(ConsumerLostError, match="connection"):
        await asyncio.wait_for(task, 10)


async def test_invalid_messages_become_dead_letters_and_block_nothing(
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
    invalid = [b"", b"\x00\xff", b'{"type": "\\u0000"}', b"[" * 500_000, encode(misplaced)]
    for payload in [*invalid, b'{"type": "%s"}' % (b"y" * 500_000)]:
        await bus.jetstream.publish("iteration.started", payload)
    step = await request_observe_step(database, bus)
    async with running_service(observer(settings, nothing)):
        await wait_until(lambda: observer_is_idle(bus), what="every message to be acked")
    assert await status_is(database, step, StepStatus.COMPLETED)
    async with database.transaction() as session:
        dead_letters = list(await session.scalars(select(DeadLetter)))
    codes = Counter(dead_letter.code for dead_letter in dead_letters)
    assert codes == {"unreadable_event": 3, "unknown_event": 2, "misplaced_event": 1}
    assert max(len(dead_letter.error) for dead_letter in dead_letters) < 3000


async def test_workers_of_a_deleted_agent_stop_without_dead_letters(
    sandbox_settings: Settings, database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    sandbox_control.faults({"kind": "latency", "latency_seconds": 0.2, "always": True})
    agent = await make_agent(database)
    async with running_services(sandbox_settings):
        await wait_until(lambda: querying(database), what="a query to be worked on")
        async with database.transaction() as session:
            await agents.delete_agent(session, agent.id)
        for name in ALL_SERVICES:
            await wait_until(partial(is_idle, bus, name), what=f"the {name} to be idle")
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(DeadLetter)) == 0


async def test_replicas_of_all_services_run_one_iteration_once(
    sandbox_settings: Settings, database: Database, bus: Bus, sandbox_control: Sandbox
) -> None:
    query = {"objective": "lithium", "reasoning": "why not", "searchHints": ["lithium"]}
    plan = {
        "queries": [query | {"objective": f"lithium {n}"} for n in range(MAX_QUERIES)],
        "insights": [],
    }
    sandbox_control.script({"phase": "observer", "content": plan})
    sandbox_control.script(
        {"phase": "knowledge_acquisition", "content": "Nothing found.", "times": None}
    )
    sandbox_control.script(
        {"phase": "graph_construction", "content": "Nothing to add.", "times": None}
    )
    agent = await make_agent(database)
    services = ("scheduler",) * 3 + ("aggregator",) * 2 + ("researcher",) * 2 + ("observer",)
    settings = sandbox_settings.model_copy(update={"model_tool_choice": "never"})
    async with running_services(settings, services):
        iteration = await ended_iteration(database, agent, 1)
        for name in ("researcher", "aggregator"):
            await wait_until(partial(is_idle, bus, name), what=f"the {name} to be idle")
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    assert Counter(event.subject for event in await list_events(bus)) == {
        "iteration.started": 1,
        "plan.produced": 1,
        "query.requested": MAX_QUERIES,
        "query.completed": MAX_QUERIES,
        "iteration.completed": 1,
    }
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Iteration)) == 1
        assert set(await session.scalars(select(Step.epoch))) == {1}
    # The plan; for each query two answers of acquisition, around its own search, and one of construction.
    assert (sandbox_control.billed()["llm"], sandbox_control.repeated("llm")) == (
        1 + 3 * MAX_QUERIES,
        0,
    )


async def status_of(url: str) -> int:
    async with httpx.AsyncClient() as client:
        try:
            return (await client.get(url)).status_code
        except httpx.TransportError:
            return 0


async def test_a_process_reports_its_health_and_exits_with_0_on_sigterm(
    environment: dict[str, str],
) -> None:
    port = free_port()
    process = await observer_process(environment, port)

    async def is_ready() -> bool:
        return await status_of(f"http://127.0.0.1:{port}/health/ready") == 200

    await wait_until(is_ready, what="the process to be ready")
    assert await status_of(f"http://127.0.0.1:{port}/health/live") == 200
    process.send_signal(signal.SIGTERM)
    output, _ = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0
    assert b'"event": "stopped"' in output
    assert b"very-secret" not in output


async def test_a_process_whose_port_is_in_use_exits_with_an_error(
    environment: dict[str, str],
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        process = await observer_process(environment, listener.getsockname()[1])
        output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode not in (0, None)
    assert b"address already in use" in output
