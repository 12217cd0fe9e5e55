"""One survey for all steps that begin on the same graph."""

import asyncio
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct
from shared.database.tables import Step
from shared.graph.context.survey import build
from shared.graph.scope import OWNED_SQL, Scope
from shared.workflow import steps

_Together = tuple[UUID | None, str, int]
"""Steps that are asked for together: their iteration, kind and round."""

# A run that goes on after a crash may keep words for its later phases that are older than they look: of runs, those that a
# step begins with.
_OTHERS: Final = Direct(
    f"""
    select contexts.text
    from llm_interactions runs
    join steps on steps.id = runs.step_id
    join contexts on contexts.agent_id = runs.agent_id and contexts.sha256 = runs.context_sha256
    where runs.iteration_id = :of_iteration
      and runs.agent_id = {OWNED_SQL}
      and runs.phase in ('knowledge_acquisition', 'analysis_generation')
      and steps.kind = :of_kind
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
    """
)


class Shared:
    """Surveys that are being made. Give one to each actor's work.

    Who begins while a survey is made for another step of its iteration, kind and round is given the same; who begins later
    takes the words that were kept, for a minute, and as long as no node or edge was written since: what was being written
    just then may be missed so long. Processes do not wait for each other: two may make it.
    """

    def __init__(self) -> None:
        self._under_way: dict[_Together, asyncio.Future[str | None]] = {}

    async def of(
        self, session: AsyncSession, scope: Scope, step: Step, *, token_budget: int
    ) -> str:
        """The block for `<graph_context>` of `step`; see `build`."""
        together = (step.iteration_id, step.kind, steps.round_of(step))
        while (other := self._under_way.get(together)) is not None:
            # Many wait for it: whoever of them is called off must not call it off for the rest.
            if (made := await asyncio.shield(other)) is not None:
                return made
        mine = self._under_way[together] = asyncio.get_running_loop().create_future()
        text: str | None = None
        try:
            text = await _of_others(session, scope, together)
            if text is None:
                text = await build(session, scope, token_budget=token_budget)
            return text
        finally:
            # None where it failed: then the next of those who wait makes it.
            del self._under_way[together]
            mine.set_result(text)


async def _of_others(session: AsyncSession, scope: Scope, together: _Together) -> str | None:
    iteration_id, kind, number = together
    given = {**scope.bound, "of_iteration": iteration_id, "of_kind": kind, "of_round": number}
    text: str | None = await _OTHERS.value(session, given)
    return text
