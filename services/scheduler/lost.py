"""The order book read: rows of which the bus seems to have lost the word. As statements, which are made once."""

from datetime import timedelta

from sqlalchemy import CTE, ColumnElement, Select, and_, exists, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared.store.leases import to_be_retried
from shared.store.tables import Iteration, Step
from shared.store.words import IterationStatus, StepStatus

ROWS_PER_LOOK = 200
DOUBLINGS = 5
"""The wait before each further resend doubles so often: what waits in a long queue is slow, not lost."""
LAPSED = timedelta(seconds=0.5)
"""How long a lease must have lapsed before its step is offered to others."""


def unclaimed(resend_after: timedelta) -> Select[Step]:
    """Steps whose request nobody took, or whose worker died. Where the lease is renewed, the worker is alive."""
    return _steps(_of_running_iterations(), _waits(resend_after))


def unclaimed_order(resend_after: timedelta) -> Select[Step]:
    """The same of steps that are no iteration's: nobody took what a person ordered, or its worker died."""
    return _steps(Step.iteration_id.is_(None), _waits(resend_after))


def unretried(resend_after: timedelta) -> Select[Step]:
    """Steps that are tried again after their iteration has ended: not taken up yet, or forgotten since."""
    asked = func.greatest(Step.requested_at, Step.retry_requested_at)
    patience = _patience(resend_after, Step.resends)
    unheard = and_(to_be_retried(), asked < func.statement_timestamp() - patience)
    return _steps(Step.retry_requested_at.is_not(None), or_(unheard, _waits(resend_after)))


def _waits(resend_after: timedelta) -> ColumnElement[bool]:
    now = func.statement_timestamp()
    waiting_since = func.greatest(Step.requested_at, Step.retry_at)
    forgotten = and_(
        Step.status == StepStatus.PENDING,
        waiting_since < now - _patience(resend_after, Step.resends),
    )
    orphaned = and_(
        Step.status == StepStatus.RUNNING,
        Step.lease_until < now - LAPSED,
        # Its last resend gets the chance to be heard before the next.
        Step.requested_at < now - resend_after / 3,
    )
    return or_(forgotten, orphaned)


def unjoined(resend_after: timedelta) -> Select[Step]:
    """The last steps of iterations that wait for nothing: the word of their end did not reach the join."""
    now = func.statement_timestamp()
    later = aliased(Step)
    last = and_(
        Step.iteration_id.in_(select(_waiting_for_nothing().c.id)),
        Step.ended_at < now - resend_after,
        func.coalesce(Step.requested_at, Step.ended_at)
        < now - _patience(resend_after, Step.resends),
        ~exists().where(later.iteration_id == Step.iteration_id, later.ended_at > Step.ended_at),
    )
    return _steps(_of_running_iterations(), last)


def untold(resend_after: timedelta) -> Select[Iteration]:
    """Iterations that have ended, and the bus has not brought the word of it: whoever ended them died, perhaps."""
    last_told_at = func.coalesce(Iteration.end_resent_at, Iteration.ended_at)
    patience = _patience(resend_after, Iteration.end_resends)
    return (
        select(Iteration)
        .where(
            Iteration.ended_at.is_not(None),
            Iteration.end_told_at.is_(None),
            last_told_at < func.statement_timestamp() - patience,
        )
        .order_by(Iteration.ended_at)
        .limit(ROWS_PER_LOOK)
    )


def _steps(*wanted: ColumnElement[bool]) -> Select[Step]:
    return select(Step).where(*wanted).order_by(Step.requested_at).limit(ROWS_PER_LOOK)


def _of_running_iterations() -> ColumnElement[bool]:
    running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING)
    return Step.iteration_id.in_(running)


def _patience(
    resend_after: timedelta, resends: InstrumentedAttribute[int]
) -> ColumnElement[timedelta]:
    return func.power(2, func.least(resends, DOUBLINGS)) * resend_after


def _waiting_for_nothing() -> CTE:
    """Running iterations none of whose steps is open.

    Found first and from partial indexes alone: a plan that begins with the ended steps reads the whole history.
    """
    is_open = Step.status.in_((StepStatus.PENDING, StepStatus.RUNNING))
    nothing_open = ~exists().where(Step.iteration_id == Iteration.id, is_open)
    running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING, nothing_open)
    return running.cte().prefix_with("materialized")
