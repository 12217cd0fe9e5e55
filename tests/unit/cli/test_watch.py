"""Watching an iteration continues while the API is unavailable and stops at the deadline."""

import io
import time
from collections.abc import Callable
from uuid import UUID

from rich.console import Console

from cli.client.client import Client
from cli.client.target import Api
from cli.errors import AwayError
from cli.render.console import THEME
from cli.watch import EventListener, IterationWatch, ProgressPrinter
from shared.schemas.base import GraphCounts, GraphResponse, IterationDetails, IterationSummary
from tests.support.cli.story import ID, iteration, step


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
