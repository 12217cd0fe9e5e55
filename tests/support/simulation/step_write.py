"""The write of one step, and the pipeline that writes several of them in one transaction.

The first statement is the fence. For each entry it compares epoch and sequence of the step, the head of the graph, the
agent's budget and the slice, and marks the steps that pass with the number of the transaction. All other statements join
the step by that number: epoch and sequence would also match a step that an earlier, unknown commit of the same entry wrote.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.simulation.breakages import Breakage
from tests.support.simulation.database import (
    ConstraintError,
    Database,
    Key,
    Statement,
    Transaction,
)
from tests.support.simulation.graph import Changes, Conclusion, Fact, next_head, write_journal
from tests.support.simulation.rows import (
    LEASE_SECONDS,
    PENDING,
    RUNNING,
    Budget,
    Head,
    InFlight,
    Paid,
    Run,
    Slice,
    Step,
    step_key,
)
from tests.support.simulation.scheduler import Actor


class Lease:
    """A worker's claim of a step, and the step as of its last write."""

    __slots__ = ("agent", "claimed", "epoch", "in_flight", "is_lost", "owner", "seq", "step_id")

    def __init__(self, step_id: int, step: Step, owner: int) -> None:
        self.step_id = step_id
        self.agent = step.agent
        self.epoch = step.epoch + 1
        self.seq = step.seq
        self.in_flight = step.in_flight
        self.owner = owner
        self.claimed = False
        self.is_lost = False


class Opening:
    """A call that is about to be sent: its maximum cost is reserved."""

    __slots__ = ("attempt", "max_cost", "request")

    def __init__(self, request: int, attempt: int, max_cost: int) -> None:
        self.request = request
        self.attempt = attempt
        self.max_cost = max_cost


class StepWrite:
    """What a step wants to be written, all or nothing."""

    __slots__ = (
        *("answers", "changes", "context", "done", "error", "expected", "facts", "is_alone"),
        *("is_done", "is_poison", "lease", "openings", "plan", "refused", "released_until"),
        *("run", "status", "tried", "unknown"),
    )

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.run: Run | None = None
        self.answers: list[tuple[int, int]] = []
        """Request and cost of answered calls, which are in flight until then."""
        self.unknown: list[int] = []
        """Requests in flight whose outcome will never be known."""
        self.openings: list[Opening] = []
        self.facts: tuple[Fact | Conclusion, ...] = ()
        self.plan: list[tuple[Key, Any]] = []
        """Rows of planned steps, and of the iteration."""
        self.context: tuple[Key, int] | None = None
        self.status = RUNNING
        self.released_until = 0.0
        self.is_poison = False
        """Whether a constraint refuses it, whatever else is in its transaction."""
        # Set by the queue:
        self.expected: Head | None = None
        """The position of the graph at which `facts` were resolved to `changes`."""
        self.changes: Changes = {}
        self.tried: dict[int, Composed] = {}
        """What the transactions that tried to write it would have written. An earlier one may still be committed."""
        self.is_alone = False
        self.is_done = False
        self.error: Exception | None = None
        self.refused = False
        self.done: list[Actor] = []


class Composed:
    """One try to write an entry: its rows. It never changes, since the server may run it after the client has given up."""

    __slots__ = (
        *("answers", "changes", "context", "entry", "epoch", "expected", "graph_head"),
        *(
            "in_flight",
            "is_alone",
            "is_refused",
            "keys",
            "lease",
            "opened",
            "plan",
            "run",
            "seq",
            "settled",
        ),
        *("status", "was_claimed"),
    )

    def __init__(self, entry: StepWrite, slice_id: int, day: int) -> None:
        """Take sequence and calls in flight from the lease, as they are before this write."""
        self.entry = entry
        self.lease = lease = entry.lease
        self.is_refused = entry.refused
        self.epoch, self.seq, self.was_claimed = lease.epoch, lease.seq, lease.claimed
        self.answers = dict(entry.answers)
        self.run, self.context, self.plan = entry.run, entry.context, entry.plan
        self.status, self.is_alone = entry.status, entry.is_alone
        unknown = set(entry.unknown)
        kept: list[InFlight] = []
        self.settled: list[tuple[InFlight, int]] = []
        """Calls that leave the list of those in flight, and what they cost."""
        for call in lease.in_flight:
            if call.request in self.answers:
                self.settled.append((call, self.answers[call.request]))
            elif call.request in unknown:
                self.settled.append((call, call.reserved))
            else:
                kept.append(call)
        self.opened = [
            InFlight(opening.request, opening.attempt, opening.max_cost, slice_id, day)
            for opening in entry.openings
        ]
        self.in_flight = (*kept, *self.opened)
        self.changes, self.expected = entry.changes, entry.expected
        self.graph_head: Head | None = None
        if self.changes:
            assert self.expected is not None
            self.graph_head = next_head(self.expected, self.changes)
        self.keys = self._keys()

    def _keys(self) -> list[Key]:
        """The rows that the fence locks, in the order of all writers."""
        agent = self.lease.agent
        calls = [*self.opened, *(call for call, _ in self.settled)]
        return [
            step_key(self.lease.step_id),
            *([("head", agent)] if self.changes else ()),
            *(key for key, _ in self.plan if key[0] == "iteration"),
            *sorted({("budget", agent, call.day) for call in calls}),
            *sorted({("slice", call.slice_id) for call in calls}),
        ]

    def note_commit(self) -> None:
        """Note on the lease that this is written."""
        lease = self.lease
        lease.claimed = True
        lease.seq = self.seq + 1
        lease.in_flight = self.in_flight


class Pipeline:
    """The statements that write `entries` in one transaction, marked with `number`."""

    def __init__(self, entries: Sequence[Composed], number: int, breakage: Breakage | None) -> None:
        self._as_they_came = entries
        self.entries = sorted(entries, key=lambda entry: entry.lease.step_id)
        self._number = number
        self._breakage = breakage
        for entry in entries:
            entry.entry.tried[number] = entry

    def statements(self, database: Database) -> list[Statement]:
        self._database = database
        statements = [Statement(self._fence, self._locks())]
        entries = self.entries
        if any(entry.run or entry.context for entry in entries):
            statements.append(Statement(self._write_runs))
        if any(entry.settled for entry in entries):
            statements.append(Statement(self._write_calls))
        if any(entry.changes for entry in entries):
            statements += [Statement(self._write_head), Statement(self._write_graph)]
        if any(entry.opened or entry.settled for entry in entries):
            statements += [Statement(self._write_budget), Statement(self._write_slices)]
        if any(entry.plan for entry in entries):
            statements.append(Statement(self._write_plan))
        return statements

    def _locks(self) -> list[Key]:
        """The locks to wait for: those of an entry that is written alone. A batch waits for none."""
        if self._breakage is Breakage.LOCKS_OUT_OF_ORDER:
            return [key for entry in self._as_they_came for key in entry.keys]
        return self.entries[0].keys if self.entries[0].is_alone else []

    def _fence(self, transaction: Transaction) -> set[StepWrite]:
        """Returns the entries that pass."""
        passed: set[StepWrite] = set()
        reserved: dict[Key, int] = {}
        for entry in self.entries:
            if all(
                self._database.try_lock(transaction, key) for key in entry.keys
            ) and self._passes(transaction, entry, reserved):
                passed.add(entry.entry)
                self._update_step(transaction, entry)
        return passed

    def _passes(self, transaction: Transaction, entry: Composed, reserved: dict[Key, int]) -> bool:
        lease, breakage = entry.lease, self._breakage
        step: Step | None = transaction.read(step_key(lease.step_id))
        if step is None:
            return False
        if breakage is not Breakage.NO_FENCE_STEP and not is_own(step, entry, transaction.now):
            return False
        head: Head = transaction.read(("head", lease.agent)) or Head(0, 0)
        if entry.changes and head != entry.expected and breakage is not Breakage.HEAD_NOT_COMPARED:
            return False
        wanted = dict(reserved)
        for call in entry.opened:
            budget: Key = ("budget", lease.agent, call.day)
            part: Key = ("slice", call.slice_id)
            for key in (budget, part):
                wanted[key] = wanted.get(key, 0) + call.reserved
        if entry.opened:
            for key, amount in wanted.items():
                if amount != reserved.get(key, 0) and not self._allows(transaction, key, amount):
                    return False
        reserved.update(wanted)
        return True

    def _allows(self, transaction: Transaction, key: Key, amount: int) -> bool:
        if key[0] == "slice":
            part: Slice | None = transaction.read(key)
            if part is None:
                return False
            if part.lease_until < transaction.now:
                return self._breakage is Breakage.LAPSED_SLICE_USED
            return part.free >= amount
        cap: int | None = transaction.read(("cap", key[1]))
        budget: Budget = transaction.read(key) or Budget(0, 0)
        if cap is None or self._breakage is Breakage.NO_BUDGET_CHECK:
            return True
        return budget.spent + budget.held + amount <= cap

    def _update_step(self, transaction: Transaction, entry: Composed) -> None:
        lease = entry.lease
        step: Step = transaction.read(step_key(lease.step_id))
        changes: dict[str, Any] = {
            "epoch": entry.epoch,
            "seq": entry.seq + 1,
            "write": self._number,
            "status": entry.status,
            "owner": lease.owner,
            "lease_until": transaction.now + LEASE_SECONDS,
            "in_flight": entry.in_flight,
        }
        if entry.status == PENDING:
            changes["retry_at"] = entry.entry.released_until
        transaction.write(step_key(lease.step_id), step.with_fields(**changes))

    def _fenced(self, transaction: Transaction, broken: Breakage) -> Iterator[Composed]:
        """The entries that the fence has let pass, as each statement must find out for itself."""
        for entry in self.entries:
            step: Step | None = transaction.read(step_key(entry.lease.step_id))
            if self._breakage is broken:
                yield entry
            elif step is not None:
                if self._breakage is Breakage.FENCE_BY_SEQUENCE:
                    if (step.epoch, step.seq) == (entry.epoch, entry.seq + 1):
                        yield entry
                elif step.write == self._number:
                    yield entry

    def _write_runs(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_RUN):
            if entry.run is not None:
                transaction.insert(("run", entry.lease.step_id), entry.run)
            if entry.context is not None:
                key, digest = entry.context
                if transaction.read(key) is None:
                    transaction.write(key, digest)

    def _write_calls(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_CALLS):
            if entry.entry.is_poison:
                raise ConstraintError("a value that the schema refuses")
            answered = entry.answers
            for call, cost in entry.settled:
                row = Paid(cost, call.attempt, call.slice_id, call.day)
                if call.request in answered:
                    transaction.insert(("answer", entry.lease.step_id, call.request), row)
                else:
                    key = ("unknown", entry.lease.step_id, call.request, call.attempt)
                    transaction.insert(key, row)

    def _write_head(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_HEAD):
            if entry.changes:
                assert entry.graph_head is not None
                if self._breakage is Breakage.NO_JOURNAL_ROW:
                    transaction.write(("head", entry.lease.agent), entry.graph_head)
                else:
                    write_journal(transaction, entry.lease.agent, entry.graph_head, entry.changes)

    def _write_graph(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_GRAPH):
            for key, row in entry.changes.items():
                transaction.write(key, row)

    def _write_budget(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_BUDGET):
            for call in entry.opened:
                _add(transaction, ("budget", entry.lease.agent, call.day), 0, call.reserved)
            for call, cost in entry.settled:
                _add(transaction, ("budget", entry.lease.agent, call.day), cost, -call.reserved)

    def _write_slices(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_SLICE):
            for call in entry.opened:
                if self._breakage is not Breakage.SLICE_SPENT_TWICE:
                    _add_to_slice(transaction, call.slice_id, 0, call.reserved)
            for call, cost in entry.settled:
                _add_to_slice(transaction, call.slice_id, cost, -call.reserved)

    def _write_plan(self, transaction: Transaction) -> None:
        for entry in self._fenced(transaction, Breakage.NO_FENCE_PLAN):
            for key, row in entry.plan:
                if key[0] == "iteration":
                    transaction.write(key, row)
                else:
                    transaction.insert(key, row)


def is_own(step: Step, entry: Composed, now: float) -> bool:
    """Whether the entry may be written: its lease is valid, or it can be claimed."""
    if entry.was_claimed:
        return step.epoch == entry.epoch and step.seq == entry.seq and step.status == RUNNING
    return step.epoch == entry.epoch - 1 and step.seq == entry.seq and is_free(step, now)


def is_free(step: Step, now: float) -> bool:
    """Whether a step can be claimed."""
    if step.status == PENDING:
        return step.retry_at <= now
    return step.status == RUNNING and step.lease_until < now


def settle_abandoned(transaction: Transaction, step_id: int, step: Step) -> None:
    """Book what a step has in flight at its assumed cost."""
    for call in step.in_flight:
        row = Paid(call.reserved, call.attempt, call.slice_id, call.day)
        transaction.insert(("unknown", step_id, call.request, call.attempt), row)
        _add(transaction, ("budget", step.agent, call.day), call.reserved, -call.reserved)
        _add_to_slice(transaction, call.slice_id, call.reserved, -call.reserved)


def _add(transaction: Transaction, key: Key, spent: int, held: int) -> None:
    budget: Budget = transaction.read(key) or Budget(0, 0)
    transaction.write(key, Budget(budget.spent + spent, budget.held + held))


def _add_to_slice(transaction: Transaction, slice_id: int, spent: int, held: int) -> None:
    """The slice exists as long as something of it is held."""
    part: Slice | None = transaction.read(("slice", slice_id))
    if part is not None:
        changed = part._replace(spent=part.spent + spent, held=part.held + held)
        transaction.write(("slice", slice_id), changed)
