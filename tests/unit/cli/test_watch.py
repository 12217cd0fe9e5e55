"""Watching an iteration continues while the API is unavailable and stops at the deadline."""

import io
import time
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest

from cli.app import run
from cli.client.client import Client
from cli.client.target import Api
from cli.errors import AwayError
from cli.render.console import THEME, SafeConsole
from cli.watch import IterationWatch, ProgressPrinter, why_not_started
from shared.schemas.base import (
    AgentDetails,
    GraphCounts,
    GraphResponse,
    IterationDetails,
    IterationSummary,
)
from tests.support.responses import ID, agent, iteration, step


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
    printer = ProgressPrinter(SafeConsole(file=io.StringIO(), theme=THEME))
    return IterationWatch(client, printer, time.monotonic() + seconds, meanwhile)


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


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (agent(status="configuring"), "waiting until the agent is configured"),
        (
            agent(last_iteration=iteration(step("observe", 0, "running"))),
            "waiting for iteration 1 to end",
        ),
        (
            agent(suspended_until=datetime(2026, 11, 28, tzinfo=UTC)),
            "suspended until 2026-11-28 00:00 UTC: daily budget reached",
        ),
        (agent(), "waiting for the scheduler"),
    ],
)
def test_why_an_iteration_has_not_started(agent: AgentDetails, reason: str) -> None:
    assert why_not_started(agent, 2) == reason


@pytest.mark.parametrize("interrupted", ["watch_iteration", "_load"])
def test_an_interrupted_wait_says_that_the_iteration_continues(
    interrupted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    counts = GraphResponse(
        counts=GraphCounts(nodes=0, edges=0, analyses=0, advice=0),
        node_types=[],
        edge_types=[],
        nodes=[],
        edges=[],
    )
    monkeypatch.setattr(Client, "order", lambda *_: agent("Lithium of Chile", iterations_started=6))
    monkeypatch.setattr(Client, "graph", lambda *_, **__: counts)
    monkeypatch.setattr(IterationWatch, interrupted, interrupt)
    arguments = ["run", "Lithium", "--wait", "--url", "http://127.0.0.1:1", "--token", "vgl_x"]
    assert run(arguments) == 130
    printed = capsys.readouterr()
    assert printed.err == (
        'Iteration 7 continues. To look again: vigil iterations "Lithium of Chile"\n'
    )
