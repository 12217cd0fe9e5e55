"""The disk of NATS is full for a while: services say so, NATS is restarted when there is space, and nothing is lost."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cli.local import store_watch
from cli.local.engines import EngineWatchdog
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.store_watch import StoreWatch
from services.scheduler import scheduler as clock_module
from services.scheduler import stream_keeper
from shared.database.engine import Database
from shared.enums import IterationStatus
from shared.events.credentials import Credentials
from shared.events.store_probe import find_store_fault
from shared.events.topology import STORE_FAULT, STREAM
from shared.runtime.bus import Bus
from shared.runtime.consumer import MessageConsumer
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.contracts.samples import samples
from tests.support.factories import make_agent
from tests.support.running_services import BUILDERS, ended_iteration, running_service_group
from tests.support.waiting import wait_until

RECOVERY_SECONDS: Final = 60.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16M,mode=700", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this container may not mount a file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Writes a file that takes what is free; returns it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        block = b"\0" * 4096
        try:
            while True:
                file.write(block)
        except OSError:
            assert shutil.disk_usage(disk).free < len(block)
    return filler


@pytest.mark.slow
async def test_work_goes_on_when_there_is_space_again(
    sandbox_settings: Settings,
    database: Database,
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nats = EmbeddedNats(small_disk / "nats", free_port(), tmp_path / "nats.log").start()
    monkeypatch.setattr(store_watch, "POLL_SECONDS", 0.2)
    settings = sandbox_settings.model_copy(update={"nats_url": nats.url})
    await provision_stream(settings)
    services = {name: build(settings) for name, build in BUILDERS.items()}
    loop = asyncio.get_running_loop()

    async def faults() -> list[str]:
        found = [await service.fault() for service in services.values()]
        return [fault for fault in found if fault is not None]

    def find_faults() -> list[str]:
        return asyncio.run_coroutine_threadsafe(faults(), loop).result()

    watchdog = EngineWatchdog(nats)
    watch = StoreWatch(nats.data, find_faults, lambda: probe(nats), watchdog)
    reports: list[str] = []

    async def supervise() -> None:
        while True:
            reports.extend(line for each in (watch, watchdog) if (line := each.look_after()))
            await asyncio.sleep(0.1)

    try:
        async with running_service_group(services):
            watch.start()
            supervisor = asyncio.create_task(supervise())
            filler = fill(small_disk)
            agent = await make_agent(database)
            await wait_until(lambda: says_so(services), what="a service to report it", seconds=60)
            await wait_until(lambda: has(reports, " free at "), what="the supervisor to report it")
            assert not [line for line in reports if "restarting" in line]
            filler.unlink()
            iteration = await ended_iteration(database, agent, 1, seconds=RECOVERY_SECONDS)
            await wait_until(lambda: is_well(services), what="all services to be ready")
            supervisor.cancel()
    finally:
        watch.stop()
        nats.stop()
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
    assert [line for line in reports if "although there is space; restarting NATS" in line]


def probe(nats: EmbeddedNats) -> str | None:
    """Publishes as the supervisor does."""
    user = Credentials("anyone")
    return asyncio.run(find_store_fault(nats.url, user, user, name="test"))


@pytest.mark.parametrize("stores", [True, False])
async def test_nats_is_restarted_only_if_it_stores_no_message_of_the_supervisor_either(
    own_nats: EmbeddedNats, monkeypatch: pytest.MonkeyPatch, stores: bool
) -> None:
    """One service says that NATS does not store its messages."""
    monkeypatch.setattr(store_watch, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(store_watch, "PATIENCE_SECONDS", 0.2)
    await provision_stream(Settings(nats_url=own_nats.url))
    bus = Bus(own_nats.url, name="test")
    await bus.connect()
    await bus.publish(next(iter(samples())))
    if not stores:
        info = await bus.jetstream.stream_info(STREAM)
        await bus.jetstream.update_stream(info.config.evolve(sealed=True, discard="new"))
    await bus.close()
    probes: list[str | None] = []

    def count_probes() -> str | None:
        probes.append(probe(own_nats))
        return probes[-1]

    watch = StoreWatch(
        own_nats.data, lambda: [f"{STORE_FAULT}: ..."], count_probes, EngineWatchdog(own_nats)
    )
    lines: list[str] = []

    async def has_decided() -> bool:
        lines.extend(line for line in [watch.look_after()] if line)
        return await has(lines, "restarting NATS") or len(probes) == 10

    watch.start()
    try:
        await wait_until(has_decided, what="a restart, or ten probes", seconds=30)
    finally:
        watch.stop()
    assert await has(lines, "restarting NATS") is not stores
    assert {fault is None for fault in probes} == {stores}


async def says_so(services: dict[str, MessageConsumer]) -> bool:
    faults = [await service.fault() for service in services.values()]
    return any(fault is not None and fault.startswith(STORE_FAULT) for fault in faults)


async def has(lines: list[str], text: str) -> bool:
    return any(text in line for line in lines)


async def is_well(services: dict[str, MessageConsumer]) -> bool:
    return not [fault for service in services.values() if (fault := await service.fault())]


async def test_a_store_that_was_deleted_is_made_again_when_nats_restarts(
    sandbox_settings: Settings,
    database: Database,
    own_nats: EmbeddedNats,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_keeper, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(clock_module, "RECONCILE_SECONDS", 0.2)
    changes = {"nats_url": own_nats.url, "resend_after_seconds": 0.5}
    settings = sandbox_settings.model_copy(update=changes)
    await provision_stream(settings)
    services = {name: build(settings) for name, build in BUILDERS.items()}
    async with running_service_group(services):
        await wait_until(lambda: is_well(services), what="all services to be ready")
        own_nats.kill()
        shutil.rmtree(own_nats.data / "jetstream")
        own_nats.start()
        agent = await make_agent(database)
        iteration = await ended_iteration(database, agent, 1, seconds=RECOVERY_SECONDS)
        await wait_until(lambda: is_well(services), what="all services to be ready")
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])
