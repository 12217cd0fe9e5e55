"""A short run of the benchmark with many listeners; its timings are not checked."""

from pathlib import Path

import pytest

from bench.event_stream import AGENTS, Load, measure
from shared.runtime.settings import Settings
from tests.support.marks import slow


@pytest.mark.parametrize(
    "window",
    [*slow(10_000), 50],
    ids=["from the buffer", "from the stream"],
)
async def test_many_listeners_resume_after_the_api_is_killed(
    settings: Settings, tmp_path: Path, window: int
) -> None:
    load = Load(clients=20, events=600, per_second=200)
    result = await measure(settings.model_copy(update={"event_window": window}), tmp_path, load)
    assert result.faults == []
    assert result.resumed == load.clients
    events_per_agent = load.events // (AGENTS + 2)
    assert result.deliveries == 10 * AGENTS * events_per_agent + 10 * events_per_agent
