"""Ways to break Vigil on purpose: each removes one safeguard, and the tests of its guarantee must then fail.

They are applied in a service's process before it starts; the product does not know them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from uuid import uuid4

from shared import derived_events
from shared.billing.call_ledger import CallRecord
from shared.database.statements import Batch, BoundQuery, CompiledStatement, PendingResult
from shared.events.envelope import Event
from shared.failpoints import Failpoint, failpoint
from shared.workflow.leases import Lease


def _ledger_off() -> None:
    """Stored responses are dropped, and the calls are repeated."""
    from shared.llm.paid_calls import PaidCalls

    commit_call = PaidCalls.commit_call

    async def get_call_without_response(self: PaidCalls, request: Any) -> CallRecord:
        call = await commit_call(self, request)
        call.answer = call.answered_at = None
        return call

    PaidCalls.commit_call = get_call_without_response  # type: ignore[method-assign]


def _without(condition: str, statement: CompiledStatement) -> CompiledStatement:
    sql = str(statement._statement)
    assert condition in sql
    return CompiledStatement(sql.replace(condition, ""))


def _epochs_off() -> None:
    """A worker that once had a lease may always write."""
    from shared.workflow import leases, steps

    def accept_any_lease(lease: Lease) -> BoundQuery[None]:
        return BoundQuery(CompiledStatement("select 1"), {}, lambda _: None)

    leases.fence = leases.renewal = accept_any_lease
    condition = " and epoch = :of_epoch and (status = 'running') is true"
    for name in ("_END", "_FAIL", "_RELEASE"):
        setattr(steps, name, _without(condition, getattr(steps, name)))


def _publish_before_commit() -> None:
    """The aggregator publishes events before it commits them, and may die in between."""
    from services.aggregator import handler
    from services.aggregator.transitions import Transition
    from shared.runtime.consumer import MessageConsumer

    original_init = MessageConsumer.__init__
    consumers: list[MessageConsumer] = []

    def init(self: MessageConsumer, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        consumers.append(self)

    async def write(self: handler.Aggregate, batch: Batch, transition: Transition) -> bool:
        iteration_id = transition.rows.iteration.id
        totals = PendingResult[derived_events.IterationTotals]()
        async with self._database.connection() as connection:
            totals.value = await derived_events.iteration_totals(iteration_id).execute(connection)
        events = handler._implied_events(transition.rows, event_in_progress.get(), totals)
        # Where a simulation has several, of a process that runs.
        running = next(each for each in reversed(consumers) if each.bus.is_connected)
        await running.bus.publish_all(events)
        if events:
            failpoint(Failpoint.TOOL_APPLIED)  # not reached by this service otherwise
        return await original_write(self, batch, transition)

    async def call(self: handler.Aggregate, event: Event) -> Sequence[Event]:
        event_in_progress.set(event)
        return await original_call(self, event)

    original_write, original_call = handler.Aggregate._write, handler.Aggregate.__call__
    event_in_progress: ContextVar[Event] = ContextVar("event_in_progress")
    MessageConsumer.__init__ = init  # type: ignore[method-assign]
    handler.Aggregate._write = write  # type: ignore[method-assign]
    handler.Aggregate.__call__ = call  # type: ignore[method-assign]


def _join_comparison_off() -> None:
    """An aggregator writes its transition also where another one has moved the iteration meanwhile."""
    from shared.workflow import iterations

    condition = " and stage = :seen_stage and stage_changed_at = :seen_at"
    iterations._MOVE = _without(condition, iterations._MOVE)  # type: ignore[misc]


def _random_event_ids() -> None:
    """An event that is published again cannot be recognized as a duplicate."""
    from shared.events import envelope

    envelope.event_id = lambda event_type, *subject_ids: uuid4()


BREAKAGES: Final[Mapping[str, Callable[[], None]]] = {
    "ledger off": _ledger_off,
    "epochs off": _epochs_off,
    "publish before commit": _publish_before_commit,
    "join comparison off": _join_comparison_off,
    "random event ids": _random_event_ids,
}
