"""What a scrape reports of PostgreSQL if it answers, fails, or is slow to give the state of the installation."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest

from shared.database.engine import Database
from shared.errors import RetrySoonError
from shared.runtime import database_probe
from shared.telemetry import metrics


async def never_ends() -> None:
    await asyncio.Event().wait()


async def is_broken() -> None:
    raise KeyError("a column is missing")


async def is_cut() -> None:
    raise RetrySoonError("PostgreSQL: the connection is closed")


def database_up() -> float | None:
    return metrics.REGISTRY.get_sample_value("vigil_database_up")


def clock_skew() -> float:
    value = metrics.REGISTRY.get_sample_value("vigil_clock_skew_seconds")
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("further", "is_up"), [(never_ends, True), (is_broken, True), (is_cut, False)]
)
async def test_postgres_is_up_if_it_answers_whatever_the_state_of_the_installation_takes(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    further: Callable[[], Awaitable[None]],
    is_up: bool,
) -> None:
    monkeypatch.setattr(database_probe, "PROBE_SECONDS", 1.0)
    await database.ping()  # a first connection may take long
    await database_probe.probe([database], [further])
    assert database_up() == is_up
    assert math.isnan(clock_skew()) != is_up
    await database_probe.probe([database])
    assert database_up() == 1
    assert abs(clock_skew()) < 1
