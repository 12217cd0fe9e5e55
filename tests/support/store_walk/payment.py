"""Operations of the unit of work, of paid calls through it, and of the limits of providers."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

from shared.billing import call_ledger
from shared.billing.call_ledger import CallRecord, CallRequest, Failure, Holding
from shared.database import unit_of_work
from shared.database.engine import Database
from shared.database.statements import STRICT, BoundQuery, CompiledStatement
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import CallKind, Phase
from shared.llm import paid_calls
from shared.llm.paid_calls import PaidCalls
from shared.provider_limits import store as provider_limits
from shared.provider_limits.state import ProviderState
from shared.provider_limits.store import StateStore
from shared.workflow import investigations, leases, steps
from shared.workflow.investigations import MissingData
from shared.workflow.leases import Lease, LeaseLostError
from tests.support.claims import AGENT_ROW
from tests.support.store_walk.operation import Again, Operation, Part
from tests.support.store_walk.world import ANSWER, MAX_USD, World, make_world

NEXT: Final = CallRequest(CallKind.LLM, {"name": "next"}, {"of": "next"}, "m")
OPEN: Final = CallRequest(CallKind.LLM, {"name": "open"}, {"of": "open"}, "m")
OTHER: Final = MissingData("Output of Mali", "It is lacking.")
FAILURE: Final = Failure("bad", "no", "")
_FORBIDS: Final = CompiledStatement(f"select case when :{STRICT} then forbid_commit() end")


@dataclass(frozen=True)
class PaymentWorld(World):
    """The unit of work is the same for all operations: each failure must leave it usable."""

    unit: UnitOfWork
    calls: PaidCalls
    call: CallRecord
    """Of an earlier worker. The provider has returned a reference."""

    @property
    def writes(self) -> tuple[BoundQuery[Any], BoundQuery[Any]]:
        """Two that do nothing when they are repeated."""
        return (
            investigations.request(self.agent_id, self.iteration.id, self.lease.step_id, OTHER),
            call_ledger.append_events(
                self.attempt.call_id, [{"type": "repair", "key": "a", "subject": "s"}]
            ),
        )

    def defer(self) -> None:
        for query in self.writes:
            self.unit.defer_query(query)

    async def write(self, transaction: Transaction) -> None:
        for query in self.writes:
            await query.execute(transaction)

    async def resumed(self) -> tuple[PaidCalls, CallRecord]:
        """`call`, as another worker resumes it."""
        calls = _paid_calls(self, self.unit)
        return calls, await calls.commit_call(OPEN)


def _paid_calls(world: World, unit: UnitOfWork) -> PaidCalls:
    lease = replace(world.lease, holding=Holding())
    new_row = partial(call_ledger.new_row, lease, world.run.id, Phase.OBSERVER)
    return PaidCalls(world.database, lease, unit, new_row, lambda _: MAX_USD)


async def _make_world(database: Database) -> PaymentWorld:
    world = await make_world(database)
    await world.execute("update calls set provider_ref = 'ref'")
    unit = UnitOfWork(database, leases.fence(world.lease))
    calls = _paid_calls(world, unit)
    return PaymentWorld(**vars(world), unit=unit, calls=calls, call=await calls.commit_call(OPEN))


async def _write_at_once(world: PaymentWorld) -> None:
    with world.unit.external_call_in_progress():
        async with world.unit.transaction() as transaction:
            await world.write(transaction)


async def _save(world: PaymentWorld) -> None:
    with world.unit.external_call_in_progress():
        await world.unit.defer_durably(world.defer)


async def _save_before(world: PaymentWorld) -> None:
    await _follow(world, world.unit.defer_durably(world.defer))


async def _follow(world: PaymentWorld, saving: Awaitable[object]) -> None:
    """Reads after the write, and commits after every error too, as `StepRunner` does when it releases the step."""
    try:
        await saving
        async with world.unit.transaction() as transaction:
            await steps.get_step(transaction, world.lease.step_id)
    finally:
        await world.unit.commit()


async def _commit_durably(world: PaymentWorld) -> None:
    with world.unit.external_call_in_progress():
        await world.unit.write_durably(world.write)


async def _commit_durably_before(world: PaymentWorld) -> None:
    await _follow(world, world.unit.write_durably(world.write))


async def _flush(world: PaymentWorld) -> None:
    async with world.unit.transaction():
        world.defer()
        await world.unit.flush_deferred()
    await world.unit.commit()


def _claiming(world: PaymentWorld) -> UnitOfWork:
    """A unit that has to claim the pending query."""
    lease = Lease(
        *(world.query.id, world.iteration.id, world.agent_id, uuid4(), 1, "worker", 60.0),
        AGENT_ROW,
    )
    claim = leases.claim_query(lease, world.iteration.started_at)
    return UnitOfWork(world.database, leases.fence(lease), claim=claim)


async def _commit_claim(world: PaymentWorld) -> None:
    assert await _claiming(world).commit_claim()


async def _commit_with_claim(world: PaymentWorld) -> None:
    unit = _claiming(world)
    for query in world.writes:
        unit.defer_query(query)
    await unit.commit()


async def _commit_deferred(world: PaymentWorld) -> None:
    world.defer()
    await world.unit.commit()


async def _commit_open(world: PaymentWorld) -> None:
    deferred, written = world.writes
    async with world.unit.transaction() as transaction:
        world.unit.defer_query(deferred)
        await written.execute(transaction)
    await world.unit.commit()


async def _commit_forbidden(world: PaymentWorld) -> None:
    """The first attempt writes nothing: PostgreSQL refuses to commit in the same round trip."""
    world.defer()
    world.unit.defer_query(BoundQuery(_FORBIDS, {STRICT: False}, lambda _: None))
    await world.unit.commit()


async def _commit_open_forbidden(world: PaymentWorld) -> None:
    async with world.unit.transaction() as transaction:
        await world.write(transaction)
    world.unit.defer_query(BoundQuery(_FORBIDS, {STRICT: False}, lambda _: None))
    await world.unit.commit()


async def _open_calls(world: PaymentWorld) -> None:
    opening = _paid_calls(world, world.unit)
    opening.open_call(NEXT)
    await opening.commit_call(NEXT)


async def _attempt(world: PaymentWorld) -> None:
    """Another one of the call: the earlier one is booked."""
    calls, call = await world.resumed()
    with world.unit.external_call_in_progress():
        async with calls.billable_attempt(call):
            pass


async def _record_answer(world: PaymentWorld) -> None:
    await _follow(
        world, world.unit.defer_durably(partial(world.calls.record_answer, world.call, ANSWER))
    )


async def _record_answer_and_open(world: PaymentWorld) -> None:
    world.calls.record_answer(world.call, ANSWER)
    world.calls.open_call(NEXT)
    await world.unit.commit()


async def _record_answer_now(world: PaymentWorld) -> None:
    async with world.unit.transaction() as transaction:
        await world.calls.record_answer_now(transaction, world.call, ANSWER)
    await world.unit.commit()


async def _record_failure(world: PaymentWorld) -> None:
    calls, call = await world.resumed()
    with world.unit.external_call_in_progress():
        await calls.record_failure(call, world.lease.epoch, FAILURE)


async def _release_unbilled(world: PaymentWorld) -> None:
    calls, call = await world.resumed()
    if call.reserved_on is not None:
        with world.unit.external_call_in_progress(), calls.waiting(call):
            await calls.release_unbilled(call)


async def _complete_run(world: PaymentWorld) -> None:
    world.calls.complete_run(world.run.id)
    await world.unit.commit()


async def _write_limits(world: PaymentWorld) -> None:
    limits = StateStore(world.database, "model", "key", "api.example")
    await limits.write(0, ProviderState())


_OPERATIONS: Final[Mapping[Any, Any]] = {
    # unit of work
    UnitOfWork.transaction: Operation(alone=_write_at_once),
    UnitOfWork.defer_durably: (
        Operation(alone=_save, case="at once", is_durable=True, hides_errors=True),
        Operation(alone=_save_before, case="before a commit", is_durable=True),
    ),
    UnitOfWork.write_durably: (
        Operation(alone=_commit_durably, case="at once", is_durable=True, hides_errors=True),
        Operation(alone=_commit_durably_before, case="before a commit", is_durable=True),
    ),
    UnitOfWork.flush_deferred: Operation(alone=_flush),
    UnitOfWork.commit_claim: Operation(alone=_commit_claim, again=LeaseLostError),
    UnitOfWork.commit: (
        Operation(alone=_commit_deferred, case="what is deferred"),
        Operation(alone=_commit_open, case="an open transaction"),
        Operation(alone=_commit_with_claim, case="with the claim", again=LeaseLostError),
        Operation(alone=_commit_forbidden, case="what is deferred, in the second attempt"),
        Operation(alone=_commit_open_forbidden, case="an open transaction, in the second attempt"),
    ),
    # paid calls
    PaidCalls.commit_call: Operation(alone=_open_calls),
    PaidCalls.billable_attempt: Operation(alone=_attempt, again=Again.WRITES),
    PaidCalls.record_answer_now: Operation(alone=_record_answer_now),
    PaidCalls.record_answer: (
        Operation(alone=_record_answer, case="and save", is_durable=True),
        Operation(alone=_record_answer_and_open, case="and open"),
    ),
    PaidCalls.record_failure: Operation(alone=_record_failure),
    PaidCalls.release_unbilled: Operation(alone=_release_unbilled),
    PaidCalls.complete_run: Operation(alone=_complete_run),
    # limits of providers
    StateStore.write: Operation(alone=_write_limits),
}
_READS: Final = {StateStore.read, provider_limits.search_quota}
_FRAMES: Final = {UnitOfWork.commit_if_immediate}

PAYMENT: Final = Part(
    "payment",
    _make_world,
    (unit_of_work, paid_calls, provider_limits),
    _OPERATIONS,
    _READS,
    _FRAMES,
)
