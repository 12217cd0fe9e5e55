"""What the join decides on, as plain values."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from shared.store.words import Stage, StepKind


@dataclass(frozen=True)
class Lack:
    """An investigation request; those with the same `objective` ask for the same."""

    request_id: UUID
    objective: str


@dataclass(frozen=True)
class Ended:
    """How a step ended. `error` is None where it completed.

    `lacks` is what an insight was not analyzed for want of; `found` whether a query wrote anything.
    """

    error: str | None = None
    analysis_ids: tuple[UUID, ...] = ()
    lacks: tuple[Lack, ...] = ()
    found: bool = True


@dataclass(frozen=True)
class Part:
    """A step, as the join sees it; `ended` is None while it is open.

    Those of the plan are of round 0. A query of a later round answers requests, which `answers` names; an insight of
    one is another of the plan's asked again, which `again_of` names.
    """

    step_id: UUID
    kind: StepKind
    ended: Ended | None = None
    round: int = 0
    answers: tuple[UUID, ...] = ()
    again_of: UUID | None = None

    @property
    def failed(self) -> bool:
        return self.ended is not None and self.ended.error is not None

    @property
    def planned_id(self) -> UUID:
        """The insight of the plan that it is, or is again."""
        return self.again_of or self.step_id


@dataclass(frozen=True)
class State:
    """`feedback_rounds` says how many rounds there may be after the plan's, `rests` that none may begin now."""

    stage: Stage
    parts: tuple[Part, ...]
    iteration_id: UUID
    feedback_rounds: int = 0
    rests: bool = False

    @property
    def round(self) -> int:
        """The one that runs, or ran last."""
        return max((part.round for part in self.parts), default=0)

    def of(self, kind: StepKind) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind == kind)

    def with_parts(self, fresh: Iterable[Part]) -> "State":
        return replace(self, parts=(*self.parts, *fresh))


@dataclass(frozen=True)
class NewQuery:
    """A query to be made of the first of the requests that it answers; the others ask for the same."""

    part: Part
    index: int


@dataclass(frozen=True)
class NewInsight:
    """`part.again_of` asked again, when `answered` has been found."""

    part: Part
    index: int
    answered: tuple[UUID, ...]
