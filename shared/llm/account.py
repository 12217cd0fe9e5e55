"""The calls of one phase run in the ledger: written when they are asked, with what is reserved, and when answered."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

from shared.llm.purse import Purse
from shared.store import ledger, paid_calls
from shared.store.leases import Lease
from shared.store.ledger import CallAnswer, CallRequest, NewRow
from shared.store.round_trip import RoundTrip
from shared.store.tables import Call
from shared.store.unit_of_work import UnitOfWork, Write


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
        await ledger.answer_call(session, call.id, answer)
        self._purse.settle(call, answer.cost_usd)

    def _write(self, session: AsyncSession, trip: RoundTrip) -> Write[None]:
        wanted: dict[str, CallRequest] = session.info.pop(self)
        self._waiting -= wanted.keys()
        rows = {key: self._new_row(request) for key, request in wanted.items()}
        bounds = {rows[key]["id"]: self._most_usd(request) for key, request in wanted.items()}
        opening = paid_calls.open_calls(trip, self._agent_id, list(rows.values()), bounds)

        async def note(session: AsyncSession) -> None:
            calls, sendings = await opening(session)
            reserved = {sending.call_id: sending for sending in sendings}
            for call in calls:
                self._purse.note(call, bounds[call.id], reserved.get(call.id))
            opened = dict(zip(wanted, calls, strict=True))
            self._unit.if_committed(partial(self._opened.update, opened))

        return note
