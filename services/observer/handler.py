"""Plans one iteration."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from services.observer.history import PlanHistory, prepare_history
from services.observer.outlook import Outlook, Watch, prepare_outlook
from services.observer.planning import (
    ResolvedPlan,
    known_addresses,
    resolve_plan,
    with_known_addresses,
)
from services.observer.prompts import (
    EMPTY_PLAN,
    LOOK_UP_RULE,
    MAX_LOOK_UP_ROUNDS,
    RULES,
    FoldedPlan,
    ObserverPlan,
    first_query,
    looked_up_message,
    parse_folded_plan,
    parse_plan,
    replan_message,
    user_message,
)
from shared.agents import feedback, memories
from shared.billing import token_lengths
from shared.billing.budgets import spending_notices
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.enums import Phase, StepKind
from shared.graph import context, system_types
from shared.graph.context import recent
from shared.graph.prompt_format import node_line, quote_name, shorten_properties, truncate_to_budget
from shared.graph.scope import GraphScope
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.repair import Repairs
from shared.llm.structured_output import (
    UnusableAnswerError,
    request_structured_answer,
    response_format,
)
from shared.provider_limits.store import search_quota
from shared.runtime.step_runner import StepResult
from shared.workflow import attention, investigations, iterations, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease

MAX_NODES: Final = 10
"""Shown for one name."""
MAX_NAMES: Final = 300
"""Shown of one group."""
NAMES_CHARS: Final = 4_000
"""Maximum length of the list of names in one group."""
TOKENS: Final = 3_000
_GROUP: Final = re.compile(r"(?P<type>[^:]+):\s*(?P<initial>\S)\S{0,2}")


async def look_up(database: Database, scope: GraphScope, wanted: Sequence[str]) -> list[str]:
    """Lines with the nodes whose names contain each of `wanted`, or with the names of a group such as `Company: A`."""
    lines: list[str] = []
    for text in wanted:
        group = _GROUP.fullmatch(text.strip("`\"' "))
        if group is not None:
            query = recent.names_in_group(scope, group["type"].strip(), group["initial"], MAX_NAMES)
            if names := await database.run(query):
                lines.append(_names_line(text, names))
                continue
        nodes = await database.run(recent.nodes_named(scope, text, MAX_NODES))
        lines += [
            node_line(None, node.type, node.name, shorten_properties(node.properties))
            for node in nodes
        ] or [f"- nothing is named {quote_name(text)}"]
    return truncate_to_budget(lines, scope.budget_bytes(TOKENS)).splitlines()


def _names_line(group: str, names: Sequence[str]) -> str:
    shown: list[str] = []
    room = NAMES_CHARS
    for name in map(quote_name, names):
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    more = len(names) - len(shown)
    return f"- {group}: {', '.join(shown)}{f', and {more} more: name what you look for' if more else ''}"


PLAN = "observer_plan"
MAX_MEMORIES_TOKENS = 1_000
"""Token budget of the owner's memories, newest first."""


@dataclass(frozen=True)
class Observe:
    model: Model
    context_tokens: int
    watch: Watch | None = None
    """None: no page is checked, and every iteration asks the model for a plan."""

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """Requests a plan; its steps are inserted in the transaction that ends the observe step."""
        scope, agent = GraphScope.of(lease), lease.agent
        batch = Batch()
        loaded_iteration = batch.add(steps.iteration_query(step))
        read_history = prepare_history(batch, scope)
        look = self.watch and prepare_outlook(batch, self.model.database, scope, self.watch)
        # What only a plan needs is read for a plan alone: most iterations are quiet.
        needed = batch if self.watch is None else Batch()
        needed.add(system_types.ensure_query(lease.agent_id))
        used_up = needed.add(search_quota())
        survey = context.prepare_survey(
            needed, scope, StepKind.OBSERVE, token_budget=self.context_tokens
        )
        owner_memories = needed.add(memories.list_active(lease.agent_id))
        owner_feedback = needed.add(feedback.list_feedback(lease.agent_id))
        async with self.model.database.connection_after(batch):
            iteration = loaded_iteration.value
            past = read_history(iteration, agent.clock)
        outlook = await look(past) if look else Outlook(scope)
        notices = spending_notices(lease.agent_id, agent.loaded_at.astimezone(UTC).date())
        if outlook.is_quiet:
            result = {**ResolvedPlan().counts, **outlook.result, iterations.QUIET: True}
            return StepResult(result, [*outlook.writes(), notices])
        if needed is not batch:
            async with self.model.database.connection_after(needed):
                pass
        if used_up.value is not None:
            # A plan whose queries cannot search is not paid for.
            raise used_up.value
        memory_lines = truncate_to_budget(
            memories.format_lines(owner_memories.value), scope.budget_bytes(MAX_MEMORIES_TOKENS)
        )
        message = user_message(
            agent.mission,
            survey.value,
            agent.clock.now,
            memory_lines,
            outlook.lines,
            owner_feedback=feedback.format_lines(owner_feedback.value),
            is_folded=context.has_section(survey.value, context.FOLDED),
        )
        run = PhaseRun(
            self.model, lease, agent, Phase.OBSERVER, message, rules=RULES, context=survey.value
        )
        plan = await self._plan(run, scope, past, agent.mission)
        if plan.dropped_requests:
            dropped = [f"answers: no open request is {each!r}." for each in plan.dropped_requests]
            await run.record_repairs("plan", Repairs(dropped), key="answers")
        news_writes = await outlook.complete(self.model.database, plan, agent.mission)
        run.complete()
        waiting = outlook.count_waiting(plan) + past.waiting_requests if plan.is_empty else 0
        idle = {attention.WAITING: waiting} if waiting else {}
        return StepResult(
            {**plan.counts, **run.repair_summary, **outlook.result, **idle},
            [
                investigations.drop_expired(
                    lease.agent_id, iteration.number, past.repeated_requests
                ),
                *news_writes,
                notices,
                token_lengths.measuring(lease.agent_id),
            ],
            iterations.plan_steps(
                iteration, queries=plan.queries, insights=plan.insights, plan=plan.as_json
            ),
        )

    async def _plan(
        self, run: PhaseRun, scope: GraphScope, past: PlanHistory, mission: str
    ) -> ResolvedPlan:
        """The plan, after at most one request to replace repeats and one to fill an empty plan.

        If the graph is shown folded, the model may first look up some of its nodes.

        What still repeats is dropped. If the graph is empty and nothing was planned, the mission becomes the first
        query. The run is completed in the transaction that ends the step, because until then another request may
        follow.
        """
        request = await run.begin(response_format=_plan_format)
        # As in the message that the run began with: the graph may have changed since.
        is_folded = LOOK_UP_RULE in run.first_message.splitlines()
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
        first = ObserverPlan(queries=[first_query(mission)], insights=[], skipped=[])
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
                plan = with_known_addresses(plan, known_addresses(run.first_message))
                return await self._resolve(run, scope, past, plan), conversation
            looks_left -= 1
            lines = await look_up(self.model.database, scope, plan.look_up)
            request = _follow_up(conversation, looked_up_message(lines))

    async def _resolve(
        self, run: PhaseRun, scope: GraphScope, past: PlanHistory, plan: ObserverPlan
    ) -> ResolvedPlan:
        async with self.model.database.connection() as connection:
            return await resolve_plan(connection, scope, past, plan)


def _plan_format(message: str) -> dict[str, Any]:
    # A line of its own: data has others.
    shape = FoldedPlan if LOOK_UP_RULE in message.splitlines() else ObserverPlan
    return response_format(shape, PLAN)


def _follow_up(request: ChatRequest, message: str) -> ChatRequest:
    return request.following({"role": "user", "content": message})
