"""Ways to break Vigil on purpose: each removes one safeguard, and the tests of its guarantee must then fail.

They are applied in a service's process before it starts; the product does not know them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import bindparam, func, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared import derived_events
from shared.database.statements import BoundQuery, CompiledStatement, RoundTrip
from shared.database.tables import Call, Step
from shared.enums import StepStatus
from shared.events.envelope import Event
from shared.failpoints import Failpoint, failpoint
from shared.workflow.leases import Lease


def _ledger_off() -> None:
    """Stored responses are dropped, and the calls are repeated."""
    from shared.llm.phase_run import PhaseRun

    get_call = PhaseRun.get_call

    async def get_call_without_response(self: PhaseRun, request: Any) -> Call:
        call = await get_call(self, request)
        call.answer = call.answered_at = None
        return call

    PhaseRun.get_call = get_call_without_response  # type: ignore[method-assign]


def _epochs_off() -> None:
    """A worker that once had a lease may always write."""
    from shared.workflow import leases, steps

    def accept_any_lease(lease: Lease) -> BoundQuery[None]:
        return BoundQuery(CompiledStatement("select 1"), {}, lambda _: None)

    async def release(session: AsyncSession, lease: Lease, **values: Any) -> Step:
        update_step = update(Step).where(Step.id == lease.step_id)
        released = update_step.values(lease_owner=None, lease_until=None, **values).returning(Step)
        step = await session.scalar(released.execution_options(populate_existing=True))
        assert step is not None
        return step

    def ending(lease: Lease, result: dict[str, Any]) -> BoundQuery[Step]:
        columns = Step.__table__.c
        end = (
            update(Step.__table__)  # type: ignore[arg-type]
            .where(columns.id == bindparam("of_step"))
            .values(
                lease_owner=None,
                lease_until=None,
                status=StepStatus.COMPLETED,
                ended_at=func.clock_timestamp(),
            )
            .returning(Step.__table__)
        )
        params = {"of_step": lease.step_id, "result": result}
        return BoundQuery(
            CompiledStatement(end, columns=["result"]),
            params,
            lambda rows: Step(**rows[0]._asdict()),
        )

    leases.fence = leases.renewal = accept_any_lease
    steps._release, steps.ending = release, ending


def _publish_before_commit() -> None:
    """The aggregator publishes events before it commits them, and may die in between."""
    from services.aggregator import handler, transitions
    from shared.runtime.consumer import MessageConsumer

    original_init = MessageConsumer.__init__
    consumers: list[MessageConsumer] = []

    def init(self: MessageConsumer, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        consumers.append(self)

    async def apply(
        self: handler.Aggregate, iteration_id: UUID, tick_of: Any, event: Event | None
    ) -> Sequence[Event]:
        opening, trip = RoundTrip(), RoundTrip()
        found = transitions.ask_locked(opening, iteration_id)
        async with self._database.direct_transaction(opening) as transaction:
            if found.value is None:
                await transaction.connection.rollback()
                return []
            rows = await transitions.with_requests(transaction, found.value)
            application = transitions.ask_tick(trip, rows, tick_of(rows))
            await trip.make(transaction)
            cost_usd = await derived_events.iteration_cost(iteration_id).answer(transaction)
            events = handler._implied_events(application.rows.value, event, cost_usd)
            await consumers[0].bus.publish_all(events)
            if events:
                failpoint(Failpoint.TOOL_APPLIED)  # not reached by this service otherwise
            await transaction.connection.execute("commit")
        return events

    MessageConsumer.__init__ = init  # type: ignore[method-assign]
    handler.Aggregate._apply = apply  # type: ignore[method-assign]


def _join_lock_off() -> None:
    """Two aggregators that join the same iteration do not wait for each other."""
    from shared.workflow import iterations

    iterations._LOCK = CompiledStatement("select cast(:of_iteration as uuid)")  # type: ignore[misc]


def _random_event_ids() -> None:
    """An event that is published again cannot be recognized as a duplicate."""
    from shared.events import envelope

    envelope.event_id = lambda event_type, *subject_ids: uuid4()


BREAKAGES: Final[Mapping[str, Callable[[], None]]] = {
    "ledger off": _ledger_off,
    "epochs off": _epochs_off,
    "publish before commit": _publish_before_commit,
    "join lock off": _join_lock_off,
    "random event ids": _random_event_ids,
}
