"""The assistant is killed at each failpoint of configuring an agent; the result does not change."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pytest

from shared.agents import configuration as agent_configuration
from shared.enums import Phase
from shared.failpoints import Failpoint
from shared.graph.scope import GraphScope
from tests.support.canonical_graph import canonical
from tests.support.chaos.scenario_run import ScenarioRunner
from tests.support.configuring import order_agent, reload_agent, wait_until_configured

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

LLM_CALLS: Final = 2
ONCE: Final = (
    Failpoint.MESSAGE_RECEIVED,
    Failpoint.LEASE_TAKEN,
    Failpoint.STATE_WRITTEN,
    Failpoint.STATE_COMMITTED,
    Failpoint.EVENTS_PUBLISHED,
)
AT_EACH_CALL: Final = (
    Failpoint.CALL_UNSENT,
    Failpoint.CALL_ANSWERED,
    Failpoint.CALL_RECORDED,
)


@dataclass(frozen=True)
class Configuration:
    """The configuration of an agent; it depends on the mission alone."""

    name: str
    status: str
    prompts: dict[Phase, str]
    versions: int
    graph: Any
    """Its node and edge types, in canonical form."""


def cases() -> Iterator[object]:
    points = [(point, 0) for point in ONCE]
    points += [(point, skip) for point in AT_EACH_CALL for skip in range(LLM_CALLS)]
    for point, skip in points:
        yield pytest.param(point, skip, id=f"{point}-{skip}")


@pytest.fixture(autouse=True)
def _disarm(runner: ScenarioRunner) -> Iterator[None]:
    yield
    runner.installation.disarm()


async def configure_agent(runner: ScenarioRunner, *, killed: bool) -> tuple[Configuration, int]:
    """Configure an agent of a new owner; also return the number of calls in flight at the kill."""
    runner.sandbox.reset()
    agent, event = await order_agent(runner.database, owner=f"owner {uuid4()}")
    await runner.bus.publish(event)
    in_flight = await runner.in_flight_at_kill("assistant") if killed else 0
    await wait_until_configured(runner.database, agent)
    configured_agent = await reload_agent(runner.database, agent)
    async with runner.database.transaction() as session:
        graph = await canonical(session, GraphScope(configured_agent.owner_id, configured_agent.id))
    prompts = agent_configuration.prompts_by_phase(configured_agent)
    configuration = Configuration(
        configured_agent.name,
        configured_agent.status,
        prompts,
        configured_agent.prompts_version,
        graph,
    )
    return configuration, in_flight


@pytest.fixture(scope="module")
async def expected(runner: ScenarioRunner) -> Configuration:
    result, _ = await configure_agent(runner, killed=False)
    assert (result.status, result.versions, len(result.prompts)) == ("ready", 1, 6)
    assert len(result.graph["node_types"]) >= 8
    assert runner.sandbox.billed()["llm"] == LLM_CALLS
    return result


@pytest.mark.parametrize(("point", "skip"), list(cases()))
async def test_killed_at(
    runner: ScenarioRunner, expected: Configuration, point: Failpoint, skip: int
) -> None:
    runner.installation.arm("assistant", point, skip=skip)
    result, in_flight = await configure_agent(runner, killed=True)
    assert result == expected
    assert runner.sandbox.repeated() <= in_flight
    assert runner.sandbox.billed()["llm"] == LLM_CALLS + runner.sandbox.repeated()
