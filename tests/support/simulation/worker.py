"""A worker: a process that claims steps, sends their calls and writes what follows, several steps at once."""

from functools import partial
from typing import Final

from tests.support.simulation import script
from tests.support.simulation.breakages import Breakage
from tests.support.simulation.bus import ENDED as ENDED_QUEUE
from tests.support.simulation.bus import WORK, Bus, Message
from tests.support.simulation.database import ConstraintError, Database, Statement, Transaction
from tests.support.simulation.graph import View
from tests.support.simulation.outage import Outage, ProviderAwayError
from tests.support.simulation.provider import MAX_COST, Provider, cost_of
from tests.support.simulation.rows import (
    COMPLETED,
    ENDED,
    FAILED,
    INSIGHT,
    LEASE_SECONDS,
    OBSERVE,
    PENDING,
    PLANNED,
    QUERY,
    RUNNING,
    Iteration,
    Paid,
    Run,
    Step,
    step_id,
    step_key,
)
from tests.support.simulation.scheduler import Actor, Process, Scheduler, Steps, Task
from tests.support.simulation.statistics import Statistics
from tests.support.simulation.step_write import Lease, Opening, StepWrite, is_free
from tests.support.simulation.write_queue import BudgetRefusedError, LeaseLostError, WriteQueue

SLOTS: Final = 5
BUDGET_PAUSE_SECONDS: Final = 25.0


class Worker:
    def __init__(
        self,
        scheduler: Scheduler,
        database: Database,
        bus: Bus,
        provider: Provider,
        statistics: Statistics,
        number: int,
        outage: Outage | None = None,
    ) -> None:
        self._outage = outage or Outage(scheduler)
        self.process = Process(f"worker {number}")
        self._scheduler = scheduler
        self._database = database
        self._bus = bus
        self._provider = provider
        self._statistics = statistics
        self._number = number
        self._breakage = scheduler.breakage
        self._queue = WriteQueue(scheduler, database, self.process, number, statistics)
        self._leases: dict[int, Lease] = {}

    def start(self) -> None:
        for _ in range(SLOTS):
            self._scheduler.spawn(self._slot(), self.process)
        self._scheduler.spawn(self._renew(), self.process)

    def _slot(self) -> Steps:
        while True:
            message: Message = yield from self._bus.pull(WORK)
            if self._breakage is Breakage.MESSAGE_ACKNOWLEDGED_EARLY:
                self._bus.acknowledge(message)
            try:
                seconds = yield from self._handle(message.content)
            except LeaseLostError:
                self._statistics.lost_leases += 1
                seconds = 1.0
            if seconds is None:
                self._bus.acknowledge(message)
            elif not message.is_acknowledged:
                self._bus.reject(message, seconds)

    def _handle(self, step: int) -> Task[float | None]:
        """Work on a step to its end. The generator returns the delay of a retry; None if the step has ended."""
        yield None
        row: Step = self._database.read(step_key(step))
        if row.status in ENDED:
            self._bus.publish(ENDED_QUEUE, row.iteration)
            return None
        if row.status == PLANNED or not is_free(row, self._scheduler.now) or step in self._leases:
            return 2.0
        lease = self._leases[step] = Lease(step, row, self._number)
        if row.seq:
            self._statistics.resumed_steps += 1
        try:
            return (yield from self._work(lease, row))
        finally:
            del self._leases[step]

    def _work(self, lease: Lease, row: Step) -> Task[float | None]:
        try:
            yield from self._run(lease, row)
        except BudgetRefusedError:
            yield from self._release(lease, BUDGET_PAUSE_SECONDS)
            return BUDGET_PAUSE_SECONDS
        except ProviderAwayError as error:
            yield from self._release(lease, error.pause_seconds)
            return error.pause_seconds
        except ConstraintError:
            self._statistics.failed_steps += 1
            yield from self._fail(lease)
        yield None
        self._bus.publish(ENDED_QUEUE, row.iteration)
        return None

    def _run(self, lease: Lease, row: Step) -> Task[None]:
        view = self._queue.view(lease.agent)
        view.advance(self._database.read)
        entry = StepWrite(lease)
        self._begin_run(entry, row, view)
        paid = self._ledger(lease)
        if self._breakage is Breakage.ANSWER_PAID_AGAIN:
            paid = {}
        self._write_off(entry, lease)
        yield None
        for part in script.rounds(lease.step_id):
            missing = [request for request in part.requests if request not in paid]
            if missing:
                entry = yield from self._send_all(lease, entry, missing)
                # What answers of the ledger led to was written together with the last of them.
                entry.facts, entry.is_poison = part.facts, part.is_poison
        entry.status = COMPLETED
        if row.kind == OBSERVE:
            self._plan(entry, row)
        yield from self._queue.write(entry)

    def _begin_run(self, entry: StepWrite, row: Step, view: View) -> None:
        """Pin the step's context. A resumed run keeps that of its first worker."""
        if self._database.read(("run", entry.lease.step_id)) is not None:
            return
        if row.graph_seq is None or self._breakage is Breakage.CONTEXT_NOT_PINNED:
            entry.run = Run(view.head.seq, view.digest)
            return
        digest: int = self._database.read(("context", row.agent, row.graph_seq))
        entry.run = Run(row.graph_seq, digest)

    def _ledger(self, lease: Lease) -> dict[int, Paid]:
        return {
            request: paid
            for part in script.rounds(lease.step_id)
            for request in part.requests
            if (paid := self._database.read(("answer", lease.step_id, request))) is not None
        }

    def _write_off(self, entry: StepWrite, lease: Lease) -> None:
        """Calls of an earlier worker, whose outcome nobody knows, are booked at their assumed cost."""
        if self._breakage is Breakage.NOT_WRITTEN_OFF:
            lease.in_flight = ()
            return
        self._statistics.assumed_calls += len(lease.in_flight)
        entry.unknown = [call.request for call in lease.in_flight]

    def _attempt(self, lease: Lease, request: int) -> int:
        attempt = 1
        for call in lease.in_flight:
            if call.request == request:
                if self._breakage is Breakage.RESENT_WITHOUT_RECORD:
                    return call.attempt
                attempt = max(attempt, call.attempt + 1)
        while self._database.read(("unknown", lease.step_id, request, attempt)) is not None:
            attempt += 1
        return attempt

    def _send_all(self, lease: Lease, entry: StepWrite, requests: list[int]) -> Task[StepWrite]:
        """Send calls, in parallel. The generator returns the entry that has the last answer and is not written yet."""
        self._outage.check_call(self.process.name)
        attempts = {request: self._attempt(lease, request) for request in requests}
        entry.openings = [Opening(request, attempts[request], MAX_COST) for request in requests]
        if self._breakage is Breakage.RESENT_WITHOUT_RECORD and lease.in_flight:
            entry.unknown, entry.openings = [], []
        if self._breakage is Breakage.SENT_BEFORE_COMMIT:
            self._provider.send(lease, requests[0], attempts[requests[0]])
        yield from self._queue.write(entry)
        yield None
        left = len(requests)
        answered: list[int] = []
        arrival: list[Actor] = []

        def send(request: int) -> Steps:
            yield self._provider.send(lease, request, attempts[request])
            answered.append(request)
            self._scheduler.wake(arrival)

        for request in requests:
            self._scheduler.spawn(send(request), self.process)
        errors: list[Exception] = []
        written: list[Actor] = []
        writing = 0

        def write(request: int) -> Steps:
            nonlocal writing
            answer = StepWrite(lease)
            answer.answers = [(request, cost_of(request))]
            try:
                yield from self._queue.write(answer)
            except (LeaseLostError, ConstraintError) as error:
                errors.append(error)
            writing -= 1
            self._scheduler.wake(written)

        while left > 1:
            while not answered:
                yield arrival
            left -= 1
            writing += 1
            self._scheduler.spawn(write(answered.pop()), self.process)
        while not answered:
            yield arrival
        request = answered.pop()
        while writing:
            yield written
        if errors:
            raise errors[0]
        following = StepWrite(lease)
        following.answers = [(request, cost_of(request))]
        return following

    def _plan(self, entry: StepWrite, row: Step) -> None:
        queries, insights = script.plan(row.iteration)
        view = self._queue.view(row.agent)
        entry.context = (("context", row.agent, view.head.seq), view.digest)
        ids = []
        for kind, count in ((QUERY, queries), (INSIGHT, insights)):
            for index in range(count):
                planned = Step(
                    row.agent, row.iteration, kind, PENDING if kind == QUERY else PLANNED
                )
                if kind == QUERY:
                    planned = planned.with_fields(graph_seq=view.head.seq)
                ids.append(step_id(row.iteration, kind, index))
                entry.plan.append((step_key(ids[-1]), planned))
        iteration: Iteration = self._database.read(("iteration", row.iteration))
        changed = Iteration(QUERY, (*iteration.step_ids, *ids))
        entry.plan.append((("iteration", row.iteration), changed))

    def _release(self, lease: Lease, seconds: float) -> Task[None]:
        entry = StepWrite(lease)
        entry.status = PENDING
        entry.released_until = self._scheduler.now + seconds
        yield from self._queue.write(entry)

    def _fail(self, lease: Lease) -> Task[None]:
        """End the step as failed. What it has in flight was answered, and cannot be written."""
        entry = StepWrite(lease)
        entry.status = FAILED
        entry.unknown = [call.request for call in lease.in_flight]
        yield from self._queue.write(entry)

    def _renew(self) -> Steps:
        """Renew the leases of all running steps, and of the slice, in one transaction."""
        while True:
            yield LEASE_SECONDS / 3
            leases = [lease for lease in self._leases.values() if lease.claimed]
            statements = []
            if leases:
                statements.append(Statement(partial(self._extend, leases)))
            if (renewal := self._queue.slices.renewal()) is not None:
                statements.append(renewal)
            if statements:
                yield from self._database.execute(statements, self.process)

    def _extend(self, leases: list[Lease], transaction: Transaction) -> None:
        for lease in leases:
            key = step_key(lease.step_id)
            # A row that is locked is being written, which renews it too.
            if self._database.try_lock(transaction, key):
                step: Step = transaction.read(key)
                if step.epoch == lease.epoch and step.status == RUNNING:
                    until = transaction.now + LEASE_SECONDS
                    transaction.write(key, step.with_fields(lease_until=until))
