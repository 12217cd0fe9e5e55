"""The inputs of a plan: why the iteration works, which pages have changed, and which queries the plan must contain."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from services.observer.history import PlanHistory
from services.observer.news import (
    Probe,
    check,
    facts_query,
    groups_to_read,
    new_items,
    read_pages_query,
    reading_query,
    store_query,
    watched_query,
    worth_storing,
)
from services.observer.news_items import Agenda, Item, agenda, decide
from services.observer.planning import ResolvedPlan
from services.observer.prompts import search_query
from services.observer.quiescence import reasons_to_work, shortest_interval, situation_query
from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery
from shared.enums import NewsKind, NewsState, WorkReason
from shared.fetch.client import FetchClient
from shared.graph.scope import GraphScope
from shared.runtime.foreign_text import ForeignTextReader
from shared.urls import urls_in

MAX_FAILURES = 20
"""Maximum number of failed checks that are listed with their reasons."""


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
    scope: GraphScope
    reasons: Sequence[WorkReason] = ()
    """Why the iteration works. Empty: it is quiet, unless `probes` is None."""
    probes: Sequence[Probe] | None = None
    """None: nothing is checked, and every iteration works."""
    total: int = 0
    """Pages and feeds that were to be checked."""
    agenda: Agenda = field(default_factory=lambda: Agenda([], []))
    due: Sequence[str] = ()
    queries: Sequence[BoundQuery[None]] = ()
    """Writes for the transaction that ends the step."""
    is_search_due: bool = False

    @property
    def is_quiet(self) -> bool:
        return self.probes is not None and not self.reasons

    @property
    def lines(self) -> list[str]:
        """For the prompt."""
        search = ["- a search is due: plan at least one query"] if self.is_search_due else []
        news = [item.line for item in self.agenda.offered]
        if self.agenda.waiting:
            news.append(f"- {self.agenda.waiting} more wait and are offered next time")
        return [*news, *(f"- {each}" for each in self.due), *search]

    @property
    def result(self) -> dict[str, Any]:
        """For the step's result."""
        if self.probes is None:
            return {}
        failed = [(probe.watched.url, probe.error) for probe in self.probes if probe.error]
        new = self.agenda.new
        counts = {
            "pages_checked": len(self.probes),
            "pages_failed": len(failed),
            "pages_changed": sum(item.kind == NewsKind.PAGE for item in new),
            "documents_new": sum(item.kind == NewsKind.DOCUMENT for item in new),
            "news_offered": len(self.agenda.offered),
            "news_expired": sum(item.state == NewsState.EXPIRED for item in self.agenda.items),
        }
        failures = [{"url": url, "error": error} for url, error in failed[:MAX_FAILURES]]
        return {
            "reasons": list(self.reasons),
            "due": list(self.due),
            **counts,
            "failures": failures,
        }

    def count_waiting(self, plan: ResolvedPlan) -> int:
        """The number of offered news items that the plan, which has no query, does not skip."""
        return len(self.agenda.offered) - len(plan.skipped)

    def writes(self, decided: Sequence[Item] = ()) -> Sequence[BoundQuery[None]]:
        """Writes for the transaction that ends the step: results of the checks and decisions of the plan.

        Until they are committed, the checks find the same again.
        """
        items = {item.id: item for item in (*self.agenda.items, *decided)}
        probes = worth_storing(self.probes or (), self.total)
        if not items and not probes:
            return self.queries
        return [*self.queries, store_query(self.scope, probes, list(items.values()))]

    async def complete(
        self, database: Database, plan: ResolvedPlan, mission: str
    ) -> Sequence[BoundQuery[None]]:
        """Adds what the plan lacks: queries that read changed pages again, and a search that is due. Returns
        `writes` with the decisions of the plan.
        """
        assert self.scope.iteration_id is not None, "only steps of an iteration plan"
        skipped = {each["url"]: each["reason"] for each in plan.skipped}

        def decided() -> list[Item]:
            named = [url for query in plan.queries for url in urls_in(query["objective"])]
            assert self.scope.iteration_id is not None
            return decide(self.agenda.offered, named, skipped, self.scope.iteration_id)

        unmentioned = [
            item
            for item in decided()
            if item.kind == NewsKind.PAGE and item.state == NewsState.OPEN
        ]
        added = []
        for pages in groups_to_read(unmentioned):
            facts = await database.run(facts_query(self.scope, [page.url for page in pages]))
            added.append(reading_query(pages, facts))
        if self.is_search_due and not plan.queries and not added:
            added = [search_query(mission)]
        plan.queries += [query.model_dump() for query in added]
        items = decided()
        plan.skipped = [
            {"url": item.url, "title": item.title, "reason": item.reason}
            for item in items
            if item.state == NewsState.SKIPPED
        ]
        return self.writes(items)


def prepare_outlook(
    batch: Batch, database: Database, scope: GraphScope, watch: Watch
) -> Callable[[PlanHistory], Awaitable[Outlook]]:
    """Adds the needed queries to `batch`. When it was executed, the returned function checks pages and feeds."""
    known = batch.add(situation_query(scope))
    watched = batch.add(watched_query(scope, watch.pages, watch.client.own_feed))

    async def look(past: PlanHistory) -> Outlook:
        assert scope.iteration_id is not None, "only steps of an iteration plan"
        watching = watched.value
        client = watch.client.of_corpus(watching.corpus)
        probes = await check(
            client, watch.reader, watching.pages, watching.new_since, watching.archive_date
        )
        urls = [entry.url for probe in probes for entry in probe.new_entries]
        read = await database.run(read_pages_query(scope, urls)) if urls else set()
        now = known.value.now
        news = agenda(known.value.news, new_items(probes, read, scope.iteration_id, now), now)
        last = known.value.past[0] if known.value.past else None
        situation = replace(
            known.value,
            graph_is_empty=past.graph_is_empty,
            has_new_requests=last is not None
            and any(made_at > last.started_at for made_at in past.open_requests.values()),
        )
        reasons = reasons_to_work(situation, search_every=watch.search_every, news=news.wakes)
        shortest = [shortest_interval(scope)] if reasons and situation.interval_grows else []
        is_search_due = last is not None and situation.is_search_due(watch.search_every)
        return Outlook(
            scope, reasons, probes, watching.total, news, situation.due, shortest, is_search_due
        )

    return look
