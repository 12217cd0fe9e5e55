"""Plans one iteration."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from typing import Any, Final

from services.observer.history import PlanHistory, ask_history
from services.observer.look_up import look_up
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
from services.observer.planning import ResolvedPlan, resolve_plan
from services.observer.prompts import (
    EMPTY_PLAN,
    MAX_LOOK_UP_ROUNDS,
    RULES,
    FoldedPlan,
    ObserverPlan,
    first_query,
    looked_up_message,
    parse_folded_plan,
    parse_plan,
    replan_message,
    search_query,
    user_message,
)
from services.observer.quiescence import reasons_to_work, shortest_interval, situation_query
from shared.agents import agents, memories
from shared.billing.budgets import spending_notices
from shared.database.engine import Database
from shared.database.statements import BoundQuery, RoundTrip
from shared.enums import Phase, StepKind
from shared.fetch.client import FetchClient
from shared.graph import context, system_types
from shared.graph.prompt_format import truncate_to_budget
from shared.graph.scope import GraphScope
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.repair import Repairs
from shared.llm.structured_output import (
    UnusableAnswerError,
    request_structured_answer,
    response_format,
)
from shared.runtime.step_runner import StepResult
from shared.workflow import investigations, iterations, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease

PLAN = "observer_plan"
MAX_MEMORIES_TOKENS = 1_000
"""Token budget of the owner's memories, newest first."""


@dataclass(frozen=True)
class Watch:
    """How the world is watched between two plans."""

    client: FetchClient
    pages: int
    """Pages and feeds that are checked for each iteration."""
    search_every: timedelta


@dataclass(frozen=True)
class Observe:
    model: Model
    context_tokens: int
    watch: Watch | None = None
    """None: no page is checked, and every iteration asks the model for a plan."""

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """Requests a plan; its steps are inserted in the transaction that ends the observe step."""
        scope = GraphScope(lease.user_id, lease.agent_id, lease.iteration_id, lease.step_id)
        trip = RoundTrip()
        loaded_iteration = trip.ask(steps.iteration_query(step))
        now = trip.ask(iterations.CLOCK)
        load_history = ask_history(trip, scope)
        look = self._ask_what_is_new(trip, scope)
        # What only a plan needs is read for a plan alone: most iterations are quiet.
        needed = trip if self.watch is None else RoundTrip()
        needed.ask(system_types.ensure_query(lease.agent_id))
        loaded_agent = needed.ask(agents.agent_query(lease.agent_id))
        survey = context.ask_survey(
            needed, scope, StepKind.OBSERVE, token_budget=self.context_tokens
        )
        owner_memories = needed.ask(memories.list_active(lease.agent_id))
        async with self.model.database.connection_after(trip) as connection:
            iteration = loaded_iteration.value
            past = await load_history(connection, iteration)
        outlook = await look(past)
        notices = spending_notices(lease.agent_id, now.value.astimezone(UTC).date())
        if not outlook.reasons:
            counts = ResolvedPlan().counts | outlook.counts
            return StepResult({**counts, iterations.QUIET: True}, [*outlook.queries, notices])
        if needed is not trip:
            async with self.model.database.connection_after(needed):
                pass
        agent = loaded_agent.value
        is_folded = context.FOLDED in survey.value
        memory_lines = truncate_to_budget(
            memories.format_lines(owner_memories.value), MAX_MEMORIES_TOKENS
        )
        message = user_message(
            agent.mission,
            survey.value,
            now.value,
            memory_lines,
            outlook.lines,
            is_folded=is_folded,
        )
        run = PhaseRun(
            self.model, lease, agent, Phase.OBSERVER, message, rules=RULES, context=survey.value
        )
        plan = await self._plan(run, scope, past, agent.mission, is_folded=is_folded)
        await outlook.complete(self.model.database, scope, plan, agent.mission)
        run.complete()
        return StepResult(
            {**plan.counts, **run.repair_summary, **outlook.counts},
            [
                investigations.drop_expired(lease.agent_id, iteration.number),
                *outlook.queries,
                notices,
            ],
            iterations.plan_steps(
                iteration, queries=plan.queries, insights=plan.insights, plan=plan.as_json
            ),
        )

    def _ask_what_is_new(
        self, trip: RoundTrip, scope: GraphScope
    ) -> Callable[[PlanHistory], Awaitable["_Outlook"]]:
        """Asks for what was known. When `trip` has been made, the returned function checks what has changed since."""
        watch = self.watch
        if watch is None:
            return _without_watch
        known = trip.ask(situation_query(scope))
        watched = trip.ask(watched_query(scope, watch.pages))

        async def look(past: PlanHistory) -> _Outlook:
            probes = await check(watch.client, watched.value.pages)
            urls = [entry.url for probe in probes for entry in probe.new_entries]
            read = await self.model.database.run(read_pages_query(scope, urls)) if urls else set()
            last = known.value.past[0] if known.value.past else None
            unread_since = last.started_at if last is not None and last.is_flawed else None
            news = news_of(probes, watched.value.total, read, unread_since)
            planned_at = max((each.started_at for each in known.value.past), default=None)
            situation = replace(
                known.value,
                graph_is_empty=past.graph_is_empty,
                has_new_requests=planned_at is not None
                and any(made_at > planned_at for made_at in past.open_requests.values()),
            )
            reasons = reasons_to_work(situation, search_every=watch.search_every, news=len(news))
            queries = [store_query(scope, news.probes)] if news.probes else []
            if reasons and situation.interval_grows:
                queries.append(shortest_interval(scope))
            return _Outlook(
                reasons,
                news,
                situation.due,
                queries,
                is_search_due=bool(situation.past) and situation.is_search_due(watch.search_every),
            )

        return look

    async def _plan(
        self,
        run: PhaseRun,
        scope: GraphScope,
        past: PlanHistory,
        mission: str,
        *,
        is_folded: bool,
    ) -> ResolvedPlan:
        """The plan, after at most one request to replace repeats and one to fill an empty plan.

        If the graph is shown folded, the model may first look up some of its nodes.

        What still repeats is dropped. If the graph is empty and nothing was planned, the mission becomes the first
        query. The run is completed in the transaction that ends the step, because until then another request may
        follow.
        """
        shape = FoldedPlan if is_folded else ObserverPlan
        request = await run.begin(response_format=response_format(shape, PLAN))
        try:
            plan, request = await self._request_plan(run, request, scope, past, is_folded=is_folded)
            if plan.repeats:
                message = replan_message(plan.repeats)
                plan, request = await self._request_plan(
                    run, _follow_up(request, message), scope, past, is_folded=is_folded
                )
            if plan.is_empty and past.graph_is_empty:
                plan, request = await self._request_plan(
                    run, _follow_up(request, EMPTY_PLAN), scope, past, is_folded=is_folded
                )
        except UnusableAnswerError:
            if not past.graph_is_empty:
                raise
            plan = ResolvedPlan()
        if not plan.is_empty or not past.graph_is_empty:
            return plan
        repairs = Repairs(
            ["Nothing was planned for an empty graph; the mission is the first query."]
        )
        await run.record_repairs("plan", repairs, key="first_query")
        first = ObserverPlan(queries=[first_query(mission)], insights=[])
        return await self._resolve(run, scope, past, first)

    async def _request_plan(
        self,
        run: PhaseRun,
        request: ChatRequest,
        scope: GraphScope,
        past: PlanHistory,
        *,
        is_folded: bool,
    ) -> tuple[ResolvedPlan, ChatRequest]:
        """The plan, and the conversation. In a folded graph the model may look something up first."""
        looks_left = MAX_LOOK_UP_ROUNDS if is_folded else 0
        while True:
            plan, conversation = await request_structured_answer(
                run,
                request,
                FoldedPlan if is_folded else ObserverPlan,
                name=PLAN,
                parse=parse_folded_plan if is_folded else parse_plan,
                subject="plan",
            )
            if not looks_left or not isinstance(plan, FoldedPlan) or not plan.look_up:
                return await self._resolve(run, scope, past, plan), conversation
            looks_left -= 1
            lines = await look_up(self.model.database, scope, plan.look_up)
            request = _follow_up(conversation, looked_up_message(lines))

    async def _resolve(
        self, run: PhaseRun, scope: GraphScope, past: PlanHistory, plan: ObserverPlan
    ) -> ResolvedPlan:
        async with self.model.database.connection() as connection:
            return await resolve_plan(connection, scope, past, plan)


@dataclass(frozen=True)
class _Outlook:
    """Why an iteration works, and what its plan must look at."""

    reasons: Sequence[str]
    news: News = field(default_factory=News)
    due: Sequence[str] = ()
    queries: Sequence[BoundQuery[None]] = ()
    """For the transaction that ends the step. They store what the checks have found: until then it is found again."""
    is_search_due: bool = False

    @property
    def lines(self) -> list[str]:
        """For the prompt."""
        search = ["- a search is due: plan at least one query"] if self.is_search_due else []
        return [*self.news.lines, *(f"- {each}" for each in self.due), *search]

    @property
    def counts(self) -> dict[str, Any]:
        """For the step's result."""
        if self.reasons is _UNWATCHED:
            return {}
        return {"reasons": list(self.reasons), **self.news.counts}

    async def complete(
        self, database: Database, scope: GraphScope, plan: ResolvedPlan, mission: str
    ) -> None:
        """Adds what the plan lacks: queries that read changed pages again, and a search that is due."""
        objectives = [query["objective"] for query in plan.queries]
        added = []
        for read in pages_not_named(self.news.changed, objectives):
            facts = await database.run(facts_query(scope, [page.url for page in read]))
            added.append(reading_query(read, facts))
        if self.is_search_due and not plan.queries and not added:
            added = [search_query(mission)]
        plan.queries += [query.model_dump() for query in added]


_UNWATCHED: Final = ("every iteration works",)


async def _without_watch(_: PlanHistory) -> _Outlook:
    return _Outlook(_UNWATCHED)


def _follow_up(request: ChatRequest, message: str) -> ChatRequest:
    return request.following({"role": "user", "content": message})
