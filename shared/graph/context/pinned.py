"""One survey for all steps that are requested together."""

import asyncio
from dataclasses import dataclass

from shared.agents import contexts
from shared.agents.contexts import StepGroup
from shared.database.engine import Database
from shared.database.statements import Executor, RoundTrip
from shared.enums import StepKind
from shared.graph.context.survey import build_survey
from shared.graph.scope import GraphScope
from shared.workflow import steps
from shared.workflow.iterations import StepRow


@dataclass(frozen=True)
class Survey:
    text: str
    """For `<graph_context>`."""
    pinned_for: StepGroup | None
    """The steps for which the first phase run with it pins it; None if it is pinned."""


class PinnedSurveys:
    """The pinned surveys of steps. Use one instance per handler.

    If none is pinned, it is built, and the first phase run with it pins it. A step that starts meanwhile in the same process
    waits for it. Processes do not wait for each other: if two of them build different surveys, one is pinned, and the
    step that was given the other one is retried.
    """

    def __init__(self) -> None:
        self._pending: dict[StepGroup, asyncio.Future[Survey | None]] = {}

    async def load(
        self,
        database: Database,
        executor: Executor,
        scope: GraphScope,
        step: StepRow,
        trip: RoundTrip,
        *,
        token_budget: int,
    ) -> Survey:
        """The survey of `step`; see `build_survey`. Makes `trip` together with its own first statement."""
        assert step.iteration_id is not None, f"a step of kind {step.kind} has no iteration"
        group = StepGroup(step.iteration_id, step.kind, steps.step_round(step))
        while (pending := self._pending.get(group)) is not None:
            await trip.make(executor)
            trip = RoundTrip()
            # Several steps wait for it: the cancellation of one must not cancel it for the others.
            if (ready := await asyncio.shield(pending)) is not None:
                return ready
        future = self._pending[group] = asyncio.get_running_loop().create_future()
        survey: Survey | None = None
        try:
            pinned = trip.ask(contexts.pinned_text(database, scope.owner_id, scope.agent_id, group))
            await trip.make(executor)
            if pinned.value is not None:
                survey = Survey(pinned.value, None)
            else:
                text = await build_survey(
                    executor, scope, StepKind(step.kind), token_budget=token_budget
                )
                survey = Survey(text, group)
            return survey
        finally:
            # None if it failed: then the next waiting step builds it.
            del self._pending[group]
            future.set_result(survey)
