"""The checks can fail: with one promise's keeper taken away, the same scenario that is passed otherwise is not."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from shared.failpoints import Failpoint
from tests.chaos.conftest import visited
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import lived_in
from tests.support.chaos.scenarios import (
    Trial,
    differences,
    frozen_with_a_lease,
    joined_by_two,
    killed_at,
)
from tests.support.chaos.visit import Visit, Visitor

pytestmark = pytest.mark.chaos

SEED = 1
Scenario = Callable[[Visitor], Awaitable[Trial]]

CASES: dict[str, tuple[str, Scenario, str]] = {
    "ledger off": (
        "analyzer",
        lambda house: killed_at(house, "analyzer", Failpoint.CALL_RECORDED, SEED, skip=2),
        "calls were paid for twice",
    ),
    "epochs off": (
        "researcher",
        lambda house: frozen_with_a_lease(house, "researcher", "researcher-2", SEED),
        "was told otherwise than the state has it",
    ),
    "publish before commit": (
        "aggregator",
        lambda house: killed_at(house, "aggregator", Failpoint.TOOL_APPLIED, SEED, skip=1),
        "was told otherwise than the state has it",
    ),
    "join lock off": (
        "aggregator",
        lambda house: joined_by_two(house, SEED),
        "iteration.completed was told otherwise than the state has it",
    ),
    "random event ids": (
        "researcher",
        lambda house: killed_at(house, "researcher", Failpoint.EVENTS_PUBLISHED, SEED),
        "and the state knows nothing of it",
    ),
}


SHORT: Final = {"ledger off", "random event ids"}


@pytest.fixture(scope="module")
async def sound(tmp_path_factory: pytest.TempPathFactory, sandbox_server: str) -> Visit:
    """A visit to an unbroken installation, which ends before the broken ones begin."""
    async with visited(lived_in(tmp_path_factory.mktemp("sound"), sandbox_server)) as visitor:
        return await visitor.whole(SEED)


@pytest.mark.parametrize(
    "breakage",
    [pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in CASES],
)
async def test_a_broken_build_is_found_out(
    tmp_path: Path, sandbox_server: str, figures: Figures, sound: Visit, breakage: str
) -> None:
    actor, scenario, complaint = CASES[breakage]
    assert sound.faults == ()
    house = lived_in(tmp_path / "broken", sandbox_server, breakages={actor: breakage})
    async with visited(house) as broken:
        trial = await scenario(broken)
    found = differences(sound, trial)
    assert any(complaint in difference for difference in found), found
    figures.add(f"found out: {breakage}")
