"""The checks can fail: with one safeguard removed, a scenario that otherwise passes fails."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shared.failpoints import Failpoint
from tests.chaos.conftest import open_runner
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import running_installation
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import (
    Trial,
    differences,
    frozen_with_a_lease,
    joined_by_two_aggregators,
    killed_at,
)

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

SEED = 1
Scenario = Callable[[ScenarioRunner], Awaitable[Trial]]

CASES: dict[str, tuple[str, Scenario, str]] = {
    "ledger off": (
        # It has one step, so that its second call is the only one in flight, and the first one is recorded.
        "adviser",
        lambda runner: killed_at(runner, "adviser", Failpoint.CALL_ANSWERED, SEED, skip=1),
        "calls were paid for twice",
    ),
    "epochs off": (
        "researcher",
        lambda runner: frozen_with_a_lease(runner, "researcher", "researcher-2", SEED),
        "was published with content that differs from the state",
    ),
    "publish before commit": (
        "aggregator",
        lambda runner: killed_at(runner, "aggregator", Failpoint.TOOL_APPLIED, SEED, skip=1),
        "was published with content that differs from the state",
    ),
    "join comparison off": (
        "aggregator",
        lambda runner: joined_by_two_aggregators(runner, SEED),
        "iteration.completed was published with content that differs from the state",
    ),
    "random event ids": (
        "researcher",
        lambda runner: killed_at(runner, "researcher", Failpoint.EVENTS_PUBLISHED, SEED),
        "but the state does not imply it",
    ),
}


@pytest.fixture(scope="module")
async def unbroken_run(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> ScenarioRun:
    """A run in an unbroken installation, which is stopped before the broken ones start."""
    async with open_runner(
        running_installation(tmp_path_factory.mktemp("sound"), sandbox_server)
    ) as runner:
        return await runner.run(SEED)


@pytest.mark.parametrize("breakage", CASES)
async def test_a_removed_safeguard_is_detected(
    tmp_path: Path, sandbox_server: str, figures: Figures, unbroken_run: ScenarioRun, breakage: str
) -> None:
    service, scenario, message = CASES[breakage]
    assert unbroken_run.faults == ()
    broken_installation = running_installation(
        tmp_path / "broken", sandbox_server, breakages={service: breakage}
    )
    async with open_runner(broken_installation) as broken_runner:
        trial = await scenario(broken_runner)
    faults = differences(unbroken_run, trial)
    assert any(message in difference for difference in faults), faults
    figures.add(f"found out: {breakage}")
