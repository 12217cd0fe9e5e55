"""A process: its HTTP server, its services, and tasks that are cancelled."""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import monotonic

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from cli.local.ports import free_port
from shared.database.engine import Database
from shared.runtime import background
from shared.runtime.background import cancel_and_wait, log_and_continue, raise_if_cancelled
from shared.runtime.database_probe import MetricsSource
from shared.runtime.process import ServiceGroup, health_app
from shared.runtime.process import serve as serve_app
from shared.runtime.settings import Settings


@dataclass
class Stated:
    """A service that is in a given state."""

    name: str
    stated_fault: str | None = None
    store_fault: str | None = None
    error: Exception | None = None
    has_stopped: bool = False
    databases: Sequence[Database] = ()
    further_metrics: Sequence[MetricsSource] = ()
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.started.set()
        if self.error is not None:
            raise self.error
        try:
            await asyncio.Event().wait()
        finally:
            self.has_stopped = True

    async def fault(self) -> str | None:
        return self.stated_fault

    async def measure_queue(self) -> None:
        pass


async def answer(group: ServiceGroup, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=health_app(group))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get(path)


async def test_a_group_is_ready_if_all_its_services_are() -> None:
    group = ServiceGroup("workers", [Stated("observer"), Stated("analyzer")])
    assert (await answer(group, "/health/ready")).status_code == 200
    group = ServiceGroup("workers", [Stated("observer"), Stated("analyzer", "NATS: not connected")])
    refused = await answer(group, "/health/ready")
    assert refused.status_code == 503
    assert refused.json()["reason"] == "analyzer: NATS: not connected"


async def test_the_store_is_reported_without_readiness() -> None:
    services = [Stated("observer", "not ready"), Stated("analyzer", "not ready")]
    assert (await answer(ServiceGroup("workers", services), "/health/store")).status_code == 200
    services[1].store_fault = "NATS cannot store messages: no space"
    refused = await answer(ServiceGroup("workers", services), "/health/store")
    assert refused.json()["reason"] == "NATS cannot store messages: no space"


async def test_a_service_that_fails_ends_the_group_in_order() -> None:
    working = Stated("observer")
    failing = Stated("analyzer", error=RuntimeError("NATS closed the connection"))
    with pytest.raises(RuntimeError, match="closed the connection"):
        await ServiceGroup("workers", [working, failing]).run()
    assert working.has_stopped


async def test_a_cancelled_group_stops_all_services() -> None:
    services = [Stated("observer"), Stated("analyzer")]
    task = asyncio.create_task(ServiceGroup("workers", services).run())
    for service in services:
        await service.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(service.has_stopped for service in services)


def test_responses_are_dated_and_a_signal_ends_the_server() -> None:
    port, dates = free_port(), []

    def ask_and_stop() -> None:
        with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
            dates.append(client.get(f"http://127.0.0.1:{port}/").headers["date"])
        os.kill(os.getpid(), signal.SIGTERM)

    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    asking = threading.Thread(target=ask_and_stop)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    threshold = gc.get_threshold()
    asking.start()
    began = monotonic()
    try:
        with pytest.raises(SystemExit) as ended:
            serve_app(app, Settings(host="127.0.0.1", port=port))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        gc.unfreeze()
        gc.set_threshold(*threshold)
    asking.join()
    assert ended.value.code == 0
    assert parsedate_to_datetime(dates[0]).tzinfo is not None
    assert monotonic() - began < 30


async def swallow_cancellations(times: int, started: asyncio.Event) -> None:
    """Swallow this many cancellations, as `asyncio.wait_for` may swallow one."""
    started.set()
    for _ in range(times):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "CANCEL_RETRY_SECONDS", 0.01)
    started = asyncio.Event()
    task = asyncio.create_task(swallow_cancellations(3, started))
    await started.wait()
    async with asyncio.timeout(10):
        await cancel_and_wait(task)
    assert task.cancelled()


async def test_the_error_of_a_task_is_raised_when_it_is_cancelled() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    task = asyncio.create_task(fail())
    await asyncio.wait({task})
    with pytest.raises(ValueError, match="broken"):
        await cancel_and_wait(task)


async def test_a_swallowed_cancellation_is_raised_later() -> None:
    started = asyncio.Event()
    continued = False

    async def work() -> None:
        nonlocal continued
        raise_if_cancelled()  # not cancelled yet
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise_if_cancelled()
        continued = True

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not continued


async def test_a_background_loop_ends_even_if_its_work_swallowed_the_cancellation() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def run_loop() -> None:
        while True:
            await log_and_continue(work, "again")

    task = asyncio.create_task(run_loop())
    await started.wait()
    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait({task})
    assert task.cancelled()
