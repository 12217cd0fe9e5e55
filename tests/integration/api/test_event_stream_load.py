"""The measurement of many listeners, in its short form: what it finds, without its figures."""

from pathlib import Path

import pytest

from bench.event_stream import AGENTS, Load, measure
from shared.runtime.settings import Settings
from tests.support.marks import slow


@pytest.mark.parametrize(
    "window",
    [*slow(10_000), 50],
    ids=["of the window", "of the stream"],
)
async def test_many_listeners_over_the_apis_death(
    settings: Settings, tmp_path: Path, window: int
) -> None:
    load = Load(clients=20, events=600, per_second=200)
    result = await measure(settings.model_copy(update={"event_window": window}), tmp_path, load)
    assert result.faults == []
    assert result.resumed == load.clients
    each_agents = load.events // (AGENTS + 2)
    assert result.deliveries == 10 * AGENTS * each_agents + 10 * each_agents
