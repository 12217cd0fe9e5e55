"""Watching goes on while the api is away, and gives up when time is up."""

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
from shared.schemas.base import CountsView, GraphView, IterationDetails, IterationView
from tests.support.cli.story import ID, iteration, step


class FlakyClient(Client):
    """An api that is away for its first answers."""

    def __init__(self, away: int, told: IterationDetails) -> None:
        super().__init__(Api("http://127.0.0.1:1"))
        self._away = away
        self._told = told

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> list[IterationView]:
        self._away -= 1
        if self._away >= 0:
            raise AwayError("restarting")
        return [self._told]

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._told

    def graph(self, reference: str, *, type_name: str | None = None, limit: int = 100) -> GraphView:
        nothing = CountsView(nodes=0, edges=0, analyses=0, advice=0)
        return GraphView(counts=nothing, node_types=[], edge_types=[], nodes=[], edges=[])


def watch(client: Client, seconds: float, meanwhile: Callable[[], object]) -> IterationWatch:
    printer = ProgressPrinter(Console(file=io.StringIO(), theme=THEME))
    return IterationWatch(
        client, EventListener(None), printer, time.monotonic() + seconds, meanwhile
    )


def test_an_api_that_comes_back_is_waited_for() -> None:
    looks: list[None] = []
    ended = iteration(step("observe"), status="completed")
    with FlakyClient(2, ended) as client:
        found = watch(client, 30, lambda: looks.append(None)).watch_iteration(ID, 1)
    assert found is ended
    assert len(looks) == 2


def test_an_iteration_that_does_not_end_is_given_up_at_the_deadline() -> None:
    with FlakyClient(0, iteration(step("observe", 0, "running"))) as client:
        watching = watch(client, 0.1, lambda: None)
        assert watching.watch_iteration(ID, 1) is None
        assert watching.out_of_time
