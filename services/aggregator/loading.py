"""What the join decides on, read from the rows. Call it with the iteration's row locked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.state import Ended, Lack, Part, State
from shared.store import investigations, joining, steps
from shared.store.joining import IterationRow, StepRow, Work
from shared.store.tables import InvestigationRequest
from shared.store.words import Stage, StepKind, StepStatus

Lacks = Mapping[UUID, Sequence[Lack]]
"""By the step that said so."""


@dataclass(frozen=True)
class Rows:
    """An iteration, locked, and all that belongs to it, as it is now."""

    iteration: IterationRow
    work: Work
    requests: Sequence[InvestigationRequest] = ()

    @property
    def steps(self) -> Sequence[StepRow]:
        return self.work.steps

    def step(self, step_id: UUID) -> StepRow | None:
        return next((row for row in self.steps if row.id == step_id), None)

    def planned(self, kind: StepKind) -> tuple[UUID, ...]:
        """Those of the plan, without what later rounds have added."""
        return tuple(row.id for row in self.steps if row.kind == kind and not steps.round_of(row))


async def loaded(session: AsyncSession, iteration: IterationRow) -> Rows:
    work = await joining.work(session, iteration)
    # Most agents look for nothing within an iteration: then nobody needs to know what was lacking.
    if not work.feedback_rounds:
        return Rows(iteration, work)
    return Rows(iteration, work, await investigations.of_iteration(session, iteration.id))


def state_of(rows: Rows) -> State:
    lacks = _lacks(rows.requests)
    return State(
        Stage(rows.iteration.stage),
        tuple(_part(row, lacks) for row in rows.steps),
        rows.iteration.id,
        rows.work.feedback_rounds,
        rows.work.rests,
    )


def _lacks(requests: Iterable[InvestigationRequest]) -> Lacks:
    found: dict[UUID, list[Lack]] = defaultdict(list)
    for request in requests:
        if request.step_id is not None:
            found[request.step_id].append(Lack(request.id, request.objective))
    return found


def _part(step: StepRow, lacks: Lacks) -> Part:
    again_of = step.input.get("again_of")
    return Part(
        step.id,
        StepKind(step.kind),
        ended(step, lacks),
        steps.round_of(step),
        tuple(UUID(request_id) for request_id in step.input.get("answers", [])),
        None if again_of is None else UUID(again_of),
    )


def ended(step: StepRow, lacks: Lacks | None = None) -> Ended | None:
    """How the step's row says that it ended, or None."""
    match step.status:
        case StepStatus.COMPLETED:
            result = step.result or {}
            return Ended(
                analysis_ids=tuple(UUID(given) for given in result.get("analyses", [])),
                lacks=tuple((lacks or {}).get(step.id, ())),
                found=bool(result.get("nodes") or result.get("edges")),
            )
        case StepStatus.FAILED:
            return Ended(error=step.error or "failed")
        case _:
            return None
