"""What an iteration must look at: why it works, what has changed in the world, and what its plan must contain."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from services.observer.history import PlanHistory
from services.observer.news import (
    News,
    check,
    facts_query,
    news_of,
    pages_not_named,
    read_pages_query,
    reading_query,
    store_query,
    watched_query,
)
from services.observer.planning import ResolvedPlan
from services.observer.prompts import search_query
from services.observer.quiescence import reasons_to_work, shortest_interval, situation_query
from shared.database.engine import Database
from shared.database.statements import BoundQuery, RoundTrip
from shared.enums import WorkReason
from shared.fetch.client import FetchClient
from shared.graph.scope import GraphScope
from shared.runtime.foreign_text import ForeignTextReader


@dataclass(frozen=True)
class Watch:
    """How pages and feeds are checked before a plan."""

    client: FetchClient
    reader: ForeignTextReader
    pages: int
    """Pages and feeds that are checked for each iteration."""
    search_every: timedelta


@dataclass(frozen=True)
class Outlook:
    reasons: Sequence[WorkReason] = ()
    """Why the iteration works. Empty: it is quiet, unless `news` is None."""
    news: News | None = None
    """None: nothing is checked, and every iteration works."""
    due: Sequence[str] = ()
    queries: Sequence[BoundQuery[None]] = ()
    """For the transaction that ends the step. They store what the checks have found: until then it is found again."""
    is_search_due: bool = False

    @property
    def is_quiet(self) -> bool:
        return self.news is not None and not self.reasons

    @property
    def lines(self) -> list[str]:
        """For the prompt."""
        news = [] if self.news is None else self.news.lines
        search = ["- a search is due: plan at least one query"] if self.is_search_due else []
        return [*news, *(f"- {each}" for each in self.due), *search]

    @property
    def result(self) -> dict[str, Any]:
        """For the step's result."""
        if self.news is None:
            return {}
        return {"reasons": list(self.reasons), "due": list(self.due), **self.news.counts}

    async def complete(
        self, database: Database, scope: GraphScope, plan: ResolvedPlan, mission: str
    ) -> None:
        """Adds what the plan lacks: queries that read changed pages again, and a search that is due."""
        objectives = [query["objective"] for query in plan.queries]
        added = []
        for pages in pages_not_named(self.news.changed if self.news else (), objectives):
            facts = await database.run(facts_query(scope, [page.url for page in pages]))
            added.append(reading_query(pages, facts))
        if self.is_search_due and not plan.queries and not added:
            added = [search_query(mission)]
        plan.queries += [query.model_dump() for query in added]


UNCHECKED = Outlook()


def ask_outlook(
    trip: RoundTrip, database: Database, scope: GraphScope, watch: Watch
) -> Callable[[PlanHistory], Awaitable[Outlook]]:
    """Asks for what is known. When `trip` has been made, the returned function checks what has changed since."""
    known = trip.ask(situation_query(scope))
    watched = trip.ask(watched_query(scope, watch.pages))

    async def look(past: PlanHistory) -> Outlook:
        client = watch.client.of_corpus(watched.value.corpus)
        probes = await check(client, watch.reader, watched.value.pages)
        urls = [entry.url for probe in probes for entry in probe.new_entries]
        read = await database.run(read_pages_query(scope, urls)) if urls else set()
        last = known.value.past[0] if known.value.past else None
        unread_since = last.started_at if last is not None and last.is_flawed else None
        news = news_of(probes, watched.value.total, read, unread_since)
        situation = replace(
            known.value,
            graph_is_empty=past.graph_is_empty,
            has_new_requests=last is not None
            and any(made_at > last.started_at for made_at in past.open_requests.values()),
        )
        reasons = reasons_to_work(situation, search_every=watch.search_every, news=len(news))
        queries = [store_query(scope, news.probes)] if news.probes else []
        if reasons and situation.interval_grows:
            queries.append(shortest_interval(scope))
        is_search_due = last is not None and situation.is_search_due(watch.search_every)
        return Outlook(reasons, news, situation.due, queries, is_search_due)

    return look
