"""Paid calls of one phase run: reserved, sent, settled."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import budgets, call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRequest, Failure, NewRow
from shared.billing.reservations import Sending
from shared.database.engine import Database
from shared.database.statements import RoundTrip
from shared.database.tables import Call
from shared.database.unit_of_work import UnitOfWork, Write
from shared.errors import TransientError, VigilError
from shared.workflow.leases import Lease


@dataclass
class _Fare:
    """What has been reserved for a call last."""

    sending: Sending
    is_unsent: bool
    """Nothing that may be billed has been sent for it: it serves for the next sending, or is released."""


class Purse:
    """Of one phase run. What another run has reserved for a call before is not its own, unless it waits for that."""

    def __init__(self, database: Database, lease: Lease, unit: UnitOfWork) -> None:
        """`unit` is what the step's holder writes in."""
        self._database = database
        self._agent_id = lease.agent_id
        self._unit = unit
        self._bounds: dict[UUID, Decimal] = {}
        self._fares: dict[UUID, _Fare] = {}

    def note(self, call: Call, bound_usd: Decimal, reserved: Sending | None) -> None:
        """The most that one sending of `call` can cost, and what its record was just written with."""
        self._bounds[call.id] = bound_usd
        if reserved is not None:
            self._fares[call.id] = _Fare(reserved, is_unsent=True)
        elif call_ledger.was_never_sent(call):
            # What may have been reserved for it was undone with all that was to be committed.
            self._fares.pop(call.id, None)
        elif call.provider_ref is not None and call.reserved_on is not None:
            # It is found again under that reference, and then settled.
            assert call.reserved_usd is not None
            sent = Sending(
                call.id, self._agent_id, call.sendings, call.reserved_on, call.reserved_usd
            )
            self._fares[call.id] = _Fare(sent, is_unsent=False)

    @asynccontextmanager
    async def sending(self, call: Call, *, is_needed: bool = True) -> AsyncIterator[None]:
        """One sending of `call`, which may be billed. Raises BudgetUsedUpError, or TransientError where the budget may
        suffice in a moment, or where the work goes on without it and is not to rest for it; then nothing was sent.
        """
        fare = self._fares.get(call.id)
        if fare is None or not fare.is_unsent:
            fare = await self._another(call.id, is_needed=is_needed)
        fare.is_unsent = False
        try:
            yield
        except VigilError as error:
            fare.is_unsent = error.unbilled
            raise

    def answer(self, call: Call, answer: CallAnswer) -> None:
        """`call` was answered: that and what it has cost is written at the end of the transaction, which is open."""
        fare = self._fares.get(call.id)
        if fare is None:
            self._unit.last(
                lambda _, __: partial(call_ledger.answer_call, call_id=call.id, answer=answer)
            )
            return
        sending, is_billed = fare.sending, not fare.is_unsent
        self._unit.last(
            lambda _, trip: call_ledger.answer_paid_call(trip, sending, answer, is_billed=is_billed)
        )

    def settle(self, call: Call, cost_usd: Decimal | None) -> None:
        """The same, where its answer is recorded: at that cost, None where nobody says so."""
        fare = self._fares.get(call.id)
        if fare is None:
            return
        closing = (
            reservations.released(fare.sending)
            if fare.is_unsent
            else reservations.settled(fare.sending, cost_usd)
        )

        def close(_: AsyncSession, trip: RoundTrip) -> None:
            trip.ask(reservations.closed(closing))

        self._unit.last(close)

    async def fail(self, call: Call, epoch: int, failure: Failure) -> None:
        """The last sending of `call` is over without a usable answer: that and its cost is committed now."""
        fare = self._fares.pop(call.id, None)
        if fare is None:
            return
        async with self._unit.transaction() as session:
            failed = await call_ledger.fail_sending(session, fare.sending, epoch, failure)
        if failed is not None:
            call.failures = [*(call.failures or ()), failed]

    def was_billed(self, call: Call) -> bool:
        """Whether any sending of this run's may have been."""
        fare = self._fares.get(call.id)
        return fare is None or not fare.is_unsent

    async def give_up(self, call: Call) -> None:
        """Releases what was reserved for `call`, if that has certainly cost nothing."""
        fare = self._fares.get(call.id)
        if fare is not None and fare.is_unsent:
            async with self._unit.transaction() as session:
                await reservations.release(session, fare.sending)
            del self._fares[call.id]

    async def _another(self, call_id: UUID, *, is_needed: bool) -> _Fare:
        bound_usd = self._bounds[call_id]
        async with self._unit.transaction() as session:
            await reservations.presume_call(session, call_id)
            reserved = await reservations.reserve(session, self._agent_id, {call_id: bound_usd})
        if reserved is None and not is_needed:
            raise TransientError(
                f"the budget leaves too little for what this may cost: ${bound_usd:f}", counts=False
            )
        if reserved is None:
            # In a transaction of its own, without the step: the agent's row is locked after no other.
            async with self._database.transaction() as session:
                refusal = await budgets.rest_or_wait(session, self._agent_id, bound_usd)
            raise refusal
        fare = self._fares[call_id] = _Fare(reserved[0], is_unsent=True)
        return fare


class Account:
    """Whatever it writes comes at the end of a transaction, as the budgets do: see `books`."""

    def __init__(
        self,
        lease: Lease,
        unit: UnitOfWork,
        purse: Purse,
        new_row: Callable[[CallRequest], NewRow],
        most_usd: Callable[[CallRequest], Decimal],
    ) -> None:
        self._agent_id = lease.agent_id
        self._unit = unit
        self._purse = purse
        self._new_row = new_row
        self._most_usd = most_usd
        self._waiting: set[str] = set()
        self._opened: dict[str, Call] = {}

    def open(self, session: AsyncSession, request: CallRequest) -> None:
        """The call's record, with what it can cost reserved, is written with whatever else `session` commits.

        Where a cap is in the way nothing is reserved for any that it writes: then `Purse.sending` asks again, call by call.
        """
        wanted: dict[str, CallRequest] = session.info.setdefault(self, {})
        if not wanted:
            self._unit.last(self._write)
        wanted[request.hash] = request
        self._waiting.add(request.hash)

    async def opened(self, request: CallRequest) -> Call:
        """The call's record, committed: mostly with what came before it."""
        if request.hash in self._waiting:
            await self._unit.commit()
        while request.hash not in self._opened:
            async with self._unit.transaction() as session:
                self.open(session, request)
            await self._unit.commit()
        return self._opened[request.hash]

    def answer(self, call: Call, answer: CallAnswer) -> None:
        """Recorded at the end of the transaction, which is open, with what it has cost."""
        self._purse.answer(call, answer)

    async def answer_now(self, session: AsyncSession, call: Call, answer: CallAnswer) -> None:
        """The same for one that is looked for in the ledger before that: only what it has cost comes at the end."""
        await call_ledger.answer_call(session, call.id, answer)
        self._purse.settle(call, answer.cost_usd)

    def _write(self, session: AsyncSession, trip: RoundTrip) -> Write[None]:
        wanted: dict[str, CallRequest] = session.info.pop(self)
        self._waiting -= wanted.keys()
        rows = {key: self._new_row(request) for key, request in wanted.items()}
        bounds = {rows[key]["id"]: self._most_usd(request) for key, request in wanted.items()}
        opening = call_ledger.open_calls(trip, self._agent_id, list(rows.values()), bounds)

        async def note(session: AsyncSession) -> None:
            calls, sendings = await opening(session)
            reserved = {sending.call_id: sending for sending in sendings}
            for call in calls:
                self._purse.note(call, bounds[call.id], reserved.get(call.id))
            opened = dict(zip(wanted, calls, strict=True))
            self._unit.if_committed(partial(self._opened.update, opened))

        return note
