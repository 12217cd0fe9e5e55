"""One survey for all steps that start on the same graph."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.agents.contexts import load_texts
from shared.database.statements import BoundQuery, CompiledStatement, Executor, RoundTrip, Row
from shared.graph.context.survey import build_survey
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.workflow import steps
from shared.workflow.iterations import StepRow

_StepGroup = tuple[UUID | None, str, int]
"""Steps that are requested together: their iteration, kind and round."""

# A run resumed after a crash may store an older survey for its later phases, so only the first phase of a step
# counts. The runs of the iteration come first, as they are few: PostgreSQL might begin with all contexts of the agent.
_STORED_SURVEY: Final = CompiledStatement(
    f"""
    select clock_timestamp() as now, stored.agent_id, stored.sha256, stored.created_at
    from (values (1)) as once left join lateral (
    with runs as materialized (
      select agent_id, step_id, context_sha256 from llm_interactions
      where iteration_id = :of_iteration and {IS_OWNED_SQL}
        and phase in ('knowledge_acquisition', 'analysis_generation')
    )
    select contexts.agent_id, contexts.sha256, contexts.created_at
    from runs
    join steps on steps.id = runs.step_id
    join contexts on contexts.agent_id = runs.agent_id and contexts.sha256 = runs.context_sha256
    where steps.kind = :of_kind
      and coalesce(cast(steps.input ->> 'round' as integer), 0) = :of_round
      and contexts.created_at > clock_timestamp() - interval '1 minute'
      and not exists (
        select from graph_nodes nodes
        where nodes.agent_id = contexts.agent_id and nodes.updated_at > contexts.created_at
      )
      and not exists (
        select from graph_edges edges
        where edges.agent_id = contexts.agent_id and edges.updated_at > contexts.created_at
      )
    order by contexts.created_at desc
    limit 1
    ) as stored on true
    """
)


@dataclass(frozen=True)
class Survey:
    text: str
    """For `<graph_context>`."""
    read_at: datetime
    """Later changes of the graph are not in the text. By the database's clock."""


class SharedSurvey:
    """Builds each survey once. Use one instance per handler.

    A step that starts while the survey of its iteration, kind and round is being built waits for it. A later step
    takes the stored text for one minute, as long as no node or edge was written since; writes in progress may be
    missed for that long. Processes do not wait for each other: two of them may build the same survey.
    """

    def __init__(self) -> None:
        self._pending: dict[_StepGroup, asyncio.Future[Survey | None]] = {}

    async def of(
        self,
        executor: Executor,
        scope: GraphScope,
        step: StepRow,
        *,
        token_budget: int,
        trip: RoundTrip | None = None,
    ) -> Survey:
        """The survey of `step`; see `build_survey`. Makes `trip`, if given, together with its own first statement."""
        trip = trip or RoundTrip()
        group = (step.iteration_id, step.kind, steps.step_round(step))
        while (pending := self._pending.get(group)) is not None:
            await trip.make(executor)
            trip = RoundTrip()
            # Several steps wait for it: the cancellation of one must not cancel it for the others.
            if (ready := await asyncio.shield(pending)) is not None:
                return ready
        future = self._pending[group] = asyncio.get_running_loop().create_future()
        survey: Survey | None = None
        try:
            stored = trip.ask(_stored_survey(scope, group))
            await trip.make(executor)
            row = stored.value
            if row.sha256 is None:
                text = await build_survey(executor, scope, token_budget=token_budget)
                survey = Survey(text, row.now)
            else:
                key = (row.agent_id, row.sha256)
                survey = Survey((await load_texts(executor, [key]))[key], row.created_at)
            return survey
        finally:
            # None if it failed: then the next waiting step builds it.
            del self._pending[group]
            future.set_result(survey)


def _stored_survey(scope: GraphScope, group: _StepGroup) -> BoundQuery[Row]:
    iteration_id, kind, round_number = group
    params = {
        **scope.sql_params,
        "of_iteration": iteration_id,
        "of_kind": kind,
        "of_round": round_number,
    }
    return BoundQuery(_STORED_SURVEY, params, lambda rows: rows[0])
