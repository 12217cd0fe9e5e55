"""Ways to break Vigil on purpose, each taking one promise's keeper away: what checks the promise must then turn red.

They are applied in an actor's process before it starts; the product knows nothing of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import Call, Iteration, Step
from shared.enums import StepStatus
from shared.events.envelope import Event
from shared.failpoints import Failpoint, failpoint
from shared.workflow.leases import Lease


def _ledger_off() -> None:
    """Whatever was answered is forgotten, and asked again."""
    from shared.llm.phase_run import PhaseRun

    remembering = PhaseRun.get_call

    async def opened(self: PhaseRun, request: Any) -> Call:
        call = await remembering(self, request)
        call.answer = call.answered_at = None
        return call

    PhaseRun.get_call = opened  # type: ignore[method-assign]


def _epochs_off() -> None:
    """Whoever has once held a lease may write for ever."""
    from shared.workflow import leases, steps

    async def anybody(session: AsyncSession, lease: Lease) -> None:
        return None

    async def release(session: AsyncSession, lease: Lease, **values: Any) -> Step:
        ended = update(Step).where(Step.id == lease.step_id)
        freed = ended.values(lease_owner=None, lease_until=None, **values).returning(Step)
        found = await session.scalar(freed.execution_options(populate_existing=True))
        assert found is not None
        return found

    async def end(session: AsyncSession, lease: Lease, result: dict[str, Any]) -> Step:
        ended_at = func.clock_timestamp()
        ended = await release(
            session, lease, status=StepStatus.COMPLETED, result=result, ended_at=ended_at
        )
        await steps._settle_reservations(session, lease)
        return ended

    leases.lock_leased_step = leases.renew = anybody
    steps._release, steps.end = release, end


def _publish_before_commit() -> None:
    """The aggregator tells what it is about to commit; it may die in between."""
    from services.aggregator import handler
    from services.aggregator.transitions import IterationRows
    from shared.runtime.consumer import MessageConsumer

    furnish, follow = MessageConsumer.__init__, handler._implied_events
    built: list[MessageConsumer] = []

    def init(self: MessageConsumer, *given: Any, **named: Any) -> None:
        furnish(self, *given, **named)
        built.append(self)

    async def following(
        session: AsyncSession, rows: IterationRows, event: Event
    ) -> Sequence[Event]:
        events = await follow(session, rows, event)
        await built[0].bus.publish_all(events)
        if events:
            failpoint(Failpoint.TOOL_APPLIED)  # a point that this actor does not come by otherwise
        return events

    MessageConsumer.__init__ = init  # type: ignore[method-assign]
    handler._implied_events = following


def _join_lock_off() -> None:
    """Two that join the same iteration do not wait for each other."""
    from shared.workflow import iterations
    from shared.workflow.iterations import IterationRow

    wanted = [getattr(Iteration, name) for name in IterationRow._fields]

    async def unlocked(session: AsyncSession, iteration_id: UUID) -> IterationRow | None:
        found = await session.execute(select(*wanted).where(Iteration.id == iteration_id))
        row = found.one_or_none()
        return None if row is None else IterationRow(*row)

    iterations.lock_iteration = unlocked


def _random_event_ids() -> None:
    """The same fact, told again, cannot be known as the same."""
    from shared.events import envelope

    envelope.event_id = lambda event_type, *subject_ids: uuid4()


BREAKAGES: Final[Mapping[str, Callable[[], None]]] = {
    "ledger off": _ledger_off,
    "epochs off": _epochs_off,
    "publish before commit": _publish_before_commit,
    "join lock off": _join_lock_off,
    "random event ids": _random_event_ids,
}
