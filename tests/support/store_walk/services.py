"""Operations of the Observer and the scheduler that are not in a store of `shared`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from services.observer import news, quiescence
from services.observer.news import Probe, Watched
from services.observer.news_items import Item
from services.scheduler import reconciler
from services.scheduler.reconciler import Reconciler
from shared.enums import NewsKind, ProbeKind
from shared.fetch.client import Seen
from shared.graph.scope import GraphScope
from tests.support.store_walk.operation import Fault, Operation, Part
from tests.support.store_walk.world import World, make_world

URL: Final = "https://atlas.example/states"


async def _count(world: World) -> None:
    """As one process of two that found the same."""
    scheduler = Reconciler(world.database, resend_after_seconds=0.0)
    for missed in await scheduler.find_missed():
        await scheduler.count(replace(missed, number=1))


def _news(world: World) -> Any:
    item = Item(world.run.id, NewsKind.PAGE, URL, "States", world.iteration.started_at)
    probe = Probe(Watched(URL, ProbeKind.PAGE), Seen("etag"))
    return news.store_query(GraphScope.of(world.lease), [probe], [item])


_GROWN: Final = """
update agents set max_interval_seconds = interval_seconds * 9, next_run_at = '2100-01-01' where id = :agent
"""

_OPERATIONS: Final[Mapping[Any, Any]] = {
    news.store_query: Operation(query=_news),
    quiescence.shortest_interval: Operation(
        query=lambda w: quiescence.shortest_interval(GraphScope.of(w.lease)), prepare=[_GROWN]
    ),
    Reconciler.count: Operation(alone=_count, is_batched=True),
}
_READS: Final = {
    news.facts_query,
    news.read_pages_query,
    news.watched_query,
    quiescence.situation_query,
    Reconciler.events,
    Reconciler.find_missed,
}

SERVICES: Final = Part(
    "services",
    make_world,
    (news, quiescence, reconciler),
    _OPERATIONS,
    _READS,
    frozenset(),
    short_faults=[Fault.LOST_BEFORE],
)
