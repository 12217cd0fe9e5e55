"""Whole installations under stress of their providers: an outage of minutes, and a rate limit far below the demand."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, select

from services.api.resources.operate.outages import read_outages
from shared.database.tables import Agent, DeadLetter, Iteration, Step
from shared.enums import IterationStatus, StepStatus
from shared.graph.scope import GraphScope
from tests.chaos.conftest import open_runner
from tests.support.chaos.evidence import load_result
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import HASTY, running_installation
from tests.support.chaos.mission import LLM_CALLS
from tests.support.chaos.scenario_run import ScenarioRunner
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import wait_until


class ProviderLink:
    """Forwards connections to `url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        # Bound and not listening: connections are refused, and no other process gets the port while the link is cut.
        self._place = _bound(0)
        self._port = int(self._place.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self.url = f"http://127.0.0.1:{self._port}"

    def close(self) -> None:
        self._place.close()

    async def restore(self) -> None:
        self._is_cut = False
        self._server = await asyncio.start_server(self._forward, sock=_bound(self._port))

    async def cut(self) -> None:
        """Refuses new connections, and passes on no request of earlier ones. What was requested before is still answered."""
        assert self._server is not None
        self._is_cut = True
        self._server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        await asyncio.gather(
            self._copy(reader, back, refuses=True), self._copy(there, writer, refuses=False)
        )

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, refuses: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if refuses and self._is_cut:
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort() if refuses and self._is_cut else writer.close()


def _bound(port: int) -> socket.socket:
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    place.bind(("127.0.0.1", port))
    return place


@asynccontextmanager
async def provider_link(url: str) -> AsyncIterator[ProviderLink]:
    link = ProviderLink(url)
    await link.restore()
    try:
        yield link
    finally:
        await link.cut()
        link.close()


pytestmark = [pytest.mark.chaos, pytest.mark.slow]

AGENTS: Final = 3
MAX_RETURN_SECONDS: Final = 60.0
SHORT_DEADLINE: Final = {**HASTY, "VIGIL_ITERATION_DEADLINE_SECONDS": "20"}
"""Far shorter than the outage: a step that waits is progress enough."""


@asynccontextmanager
async def linked_runner(
    home: Path, sandbox_url: str, **options: Any
) -> AsyncIterator[tuple[ScenarioRunner, ProviderLink]]:
    """An installation whose connection to the sandbox can be cut."""
    async with (
        provider_link(sandbox_url) as link,
        open_runner(running_installation(home, link.url, **options)) as runner,
    ):
        runner.sandbox = Sandbox(sandbox_url)
        yield runner, link


async def steps_of(runner: ScenarioRunner, *conditions: Any) -> list[Step]:
    async with runner.database.transaction() as session:
        return list(await session.scalars(select(Step).where(*conditions)))


async def assert_nothing_failed(runner: ScenarioRunner) -> None:
    failed = await steps_of(runner, Step.status == StepStatus.FAILED)
    assert [step.error for step in failed] == []
    async with runner.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(DeadLetter)) == 0
        ended = select(Iteration.errors).where(Iteration.status == IterationStatus.FAILED)
        assert list(await session.scalars(ended)) == []


@pytest.mark.parametrize("seconds", [25.0, 600.0])
async def test_an_outage_fails_nothing_and_ends_for_all_within_a_minute(
    tmp_path: Path, sandbox_server: str, figures: Figures, seconds: float
) -> None:
    async with linked_runner(tmp_path, sandbox_server, settings=SHORT_DEADLINE) as (runner, link):
        runner.sandbox.reset()
        agents = [await runner.begin_another(seed) for seed in range(AGENTS)]
        await wait_until(lambda: steps_of(runner, Step.started_at.is_not(None)), what="a step")
        await link.cut()
        cut_at = time.monotonic()
        await wait_until(
            lambda: all_wait(runner, agents), what="all iterations to wait", seconds=60
        )
        await wait_until_reported(runner)
        while time.monotonic() < cut_at + seconds:
            await asyncio.sleep(1)
            await assert_nothing_failed(runner)
        assert await all_wait(runner, agents)
        await link.restore()
        restored_at = time.monotonic()
        await wait_until(
            lambda: none_waits(runner), what="all to go on", seconds=MAX_RETURN_SECONDS
        )
        returned = time.monotonic() - restored_at
        figures.sample("an outage: until every iteration goes on", returned)
        print(f"after an outage of {seconds:.0f} s all went on within {returned:.1f} s")
        for agent in agents:
            await runner.wait_until_ended(agent)
            async with runner.database.transaction() as session:
                result = await load_result(session, GraphScope(agent.owner_id, agent.id))
            assert result
        await assert_nothing_failed(runner)
        assert runner.sandbox.repeated() == 0
        assert max(step.attempts for step in await steps_of(runner)) == 0
        assert_logged_once(runner)


async def all_wait(runner: ScenarioRunner, agents: list[Agent]) -> bool:
    waiting = await steps_of(runner, Step.waiting_since.is_not(None))
    return {step.agent_id for step in waiting} == {agent.id for agent in agents}


async def none_waits(runner: ScenarioRunner) -> bool:
    return not await steps_of(runner, Step.waiting_since.is_not(None))


async def wait_until_reported(runner: ScenarioRunner) -> None:
    """The installation reports one outage, of the model."""

    async def is_reported() -> bool:
        async with runner.database.transaction() as session:
            outages = await read_outages(session, None, runner.installation.settings)
        models = [each for each in outages if each.kind == "model"]
        return [each.is_unavailable and each.waiting_steps > 0 for each in models] == [True]

    await wait_until(is_reported, what="the outage to be reported")


def assert_logged_once(runner: ScenarioRunner) -> None:
    """Each process logs the outage once, and its end once."""
    began, ended = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for file in (runner.installation.home / "logs").glob("*.log"):
        for line in file.read_text(errors="replace").splitlines():
            provider = file.name, "search service" in line
            began[provider] += "provider unavailable; steps wait" in line
            ended[provider] += "provider available again" in line
    assert began.total() > 0
    for provider, number in began.items():
        assert ended[provider] <= number <= ended[provider] + 1, provider
    # An answer that was on its way when the link was cut may end the outage for a moment.
    assert max(began.values()) <= 2


async def test_a_rate_limit_is_used_and_fails_nothing(
    tmp_path: Path, sandbox_server: str, figures: Figures
) -> None:
    """Eight researchers, and far more work than the model server permits."""
    per_minute, minutes = 180, 3
    replicas = {"researcher": 8}
    opened = running_installation(tmp_path, sandbox_server, replicas=replicas, settings={})
    async with open_runner(opened) as runner:
        runner.sandbox.reset()
        runner.sandbox.faults(
            {
                "kind": "rate_limit",
                "path": "/v1/chat/completions",
                "per_minute": per_minute,
                "burst": 10,
                "always": True,
            }
        )
        number = per_minute * (minutes + 2) // LLM_CALLS
        agents = [await runner.begin_another(seed) for seed in range(number)]
        await asyncio.sleep(60)
        before, measured_at = answered(runner), time.monotonic()
        await asyncio.sleep(minutes * 60)
        share = (answered(runner) - before) / (time.monotonic() - measured_at) * 60 / per_minute
        print(f"used {share:.1%} of the permitted rate; {len(agents)} agents")
        figures.sample("a rate limit: share of it that is used", share)
        await assert_nothing_failed(runner)
        assert runner.sandbox.repeated() == 0
        assert share >= 0.9
        assert max(step.attempts for step in await steps_of(runner)) == 0


def answered(runner: ScenarioRunner) -> int:
    """Model calls that were answered."""
    return sum(count for kind, count in runner.sandbox.billed().items() if kind == "llm")
