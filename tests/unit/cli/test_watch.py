"""Watching an iteration continues while the API is unavailable and stops at the deadline."""

import io
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import pytest
from rich.console import Console

from cli.client.client import Client
from cli.client.target import Api
from cli.errors import AwayError
from cli.render.console import THEME
from cli.watch import EventListener, IterationWatch, ProgressPrinter, why_not_started
from shared.schemas.base import (
    AgentDetails,
    GraphCounts,
    GraphResponse,
    IterationDetails,
    IterationSummary,
)
from tests.support.cli.story import ID, iteration, step

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)


class FlakyClient(Client):
    """An API client whose first calls fail."""

    def __init__(self, failures: int, details: IterationDetails) -> None:
        super().__init__(Api("http://127.0.0.1:1"))
        self._failures = failures
        self._details = details

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> list[IterationSummary]:
        self._failures -= 1
        if self._failures >= 0:
            raise AwayError("restarting")
        return [self._details]

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._details

    def graph(
        self, reference: str, *, type_name: str | None = None, limit: int = 100
    ) -> GraphResponse:
        nothing = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
        return GraphResponse(counts=nothing, node_types=[], edge_types=[], nodes=[], edges=[])


def watch(client: Client, seconds: float, meanwhile: Callable[[], object]) -> IterationWatch:
    printer = ProgressPrinter(Console(file=io.StringIO(), theme=THEME))
    return IterationWatch(
        client, EventListener(None), printer, time.monotonic() + seconds, meanwhile
    )


def test_watching_waits_for_an_api_that_comes_back() -> None:
    calls: list[None] = []
    details = iteration(step("observe"), status="completed")
    with FlakyClient(2, details) as client:
        result = watch(client, 30, lambda: calls.append(None)).watch_iteration(ID, 1)
    assert result is details
    assert len(calls) == 2


def test_watching_stops_at_the_deadline() -> None:
    with FlakyClient(0, iteration(step("observe", 0, "running"))) as client:
        watcher = watch(client, 0.1, lambda: None)
        assert watcher.watch_iteration(ID, 1) is None
        assert watcher.out_of_time


def _agent(**changes: Any) -> AgentDetails:
    values: dict[str, Any] = {
        "id": ID,
        "name": "Lithium",
        "mission": "Watch lithium",
        "status": "ready",
        "fault": None,
        "interval_seconds": 300,
        "active": True,
        "models": {},
        "next_run_at": NOW,
        "run_requested_at": NOW,
        "suspended_until": None,
        "iterations_started": 1,
        "created_at": NOW,
        "updated_at": NOW,
        "budget_usd_per_day": None,
        "budget_calls_per_day": None,
        "last_iteration": None,
        "trouble": [],
        "prompts": {},
        "prompts_version": 1,
        "configuration": None,
    }
    return AgentDetails.model_validate(values | changes)


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (_agent(status="configuring"), "waiting until the agent is configured"),
        (
            _agent(last_iteration=iteration(step("observe", 0, "running"))),
            "waiting for iteration 1 to end",
        ),
        (
            _agent(suspended_until=datetime(2026, 11, 28, tzinfo=UTC)),
            "suspended until 2026-11-28 00:00 UTC: daily budget reached",
        ),
        (_agent(), "waiting for the scheduler"),
    ],
)
def test_why_an_iteration_has_not_started(agent: AgentDetails, reason: str) -> None:
    assert why_not_started(agent, 2) == reason


def test_a_wait_is_printed_once_without_a_terminal() -> None:
    console = Console(file=io.StringIO(), theme=THEME)
    printer = ProgressPrinter(console)
    for _ in range(3):
        printer.wait_for_start(_agent(), 2)
    printer.wait_for_start(_agent(status="configuring"), 2)
    assert isinstance(console.file, io.StringIO)
    assert [line.strip() for line in console.file.getvalue().splitlines()] == [
        "waiting for the scheduler",
        "waiting until the agent is configured",
    ]
