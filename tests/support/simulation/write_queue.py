"""Group commit: while one transaction is out, what other steps of the process want written waits, and goes together."""

from collections.abc import Sequence
from typing import Final

from tests.support.simulation.breakages import Breakage
from tests.support.simulation.database import ConstraintError, Database, Outcome
from tests.support.simulation.graph import View, resolve
from tests.support.simulation.rows import Budget, Step, step_key
from tests.support.simulation.scheduler import Process, Scheduler, Steps, Task, ViolationError
from tests.support.simulation.slices import SliceHolder
from tests.support.simulation.statistics import Statistics
from tests.support.simulation.step_write import Composed, Pipeline, StepWrite, is_own

DAY_SECONDS: Final = 150.0
MAX_BATCH: Final = 8
RETRY_SECONDS: Final = 0.2


class LeaseLostError(Exception):
    """Another worker has the step, or it has ended."""


class BudgetRefusedError(Exception):
    """A cap does not allow the calls. Everything else of the entry is written."""


class WriteQueue:
    def __init__(
        self,
        scheduler: Scheduler,
        database: Database,
        process: Process,
        worker: int,
        statistics: Statistics,
    ) -> None:
        self._scheduler = scheduler
        self._database = database
        self._process = process
        self._statistics = statistics
        self._breakage = scheduler.breakage
        self._waiting: list[StepWrite] = []
        self._is_running = False
        self._count = worker * 1_000_000
        self.slices = SliceHolder(database, process, worker, scheduler.breakage)
        self.views: dict[int, View] = {}

    def view(self, agent: int) -> View:
        """This process's copy of the agent's graph."""
        return self.views.setdefault(agent, View(agent))

    def write(self, entry: StepWrite) -> Task[None]:
        """Write the entry and wait for its commit. Raises LeaseLostError, BudgetRefusedError, ConstraintError."""
        if entry.lease.is_lost:
            raise LeaseLostError
        self._waiting.append(entry)
        if not self._is_running:
            self._is_running = True
            self._scheduler.spawn(self._run(), self._process)
        if self._breakage is Breakage.WRITE_REPORTED_EARLY:
            yield None
            return
        while not entry.is_done:
            yield entry.done
        if entry.error is not None:
            raise entry.error
        if entry.refused:
            raise BudgetRefusedError

    def _run(self) -> Steps:
        while self._waiting:
            batch = self._take()
            yield from self._write_batch(batch)
        self._is_running = False

    def _take(self) -> list[StepWrite]:
        """At most one entry of a step, and at most one that changes the graph of an agent."""
        if self._waiting[0].is_alone:
            return [self._waiting.pop(0)]
        batch: list[StepWrite] = []
        graphs: set[int] = set()
        steps: set[int] = set()
        left: list[StepWrite] = []
        for entry in self._waiting:
            lease = entry.lease
            if (
                len(batch) >= MAX_BATCH
                or entry.is_alone
                or lease.step_id in steps
                or (entry.facts and lease.agent in graphs)
            ):
                left.append(entry)
                continue
            batch.append(entry)
            steps.add(lease.step_id)
            if entry.facts:
                graphs.add(lease.agent)
        self._waiting = left
        return batch

    def _write_batch(self, batch: list[StepWrite]) -> Task[None]:
        for entry in batch:
            if entry.lease.is_lost:
                self._end(entry, LeaseLostError())
        batch = [entry for entry in batch if not entry.is_done]
        if not batch:
            return
        day = int(self._scheduler.now / DAY_SECONDS)
        yield from self._lease_slice(batch, day)
        for entry in batch:
            self._resolve(entry)
        composed = [Composed(entry, self.slices.slice_id, day) for entry in batch]
        self._count += 1
        pipeline = Pipeline(composed, self._count, self._breakage)
        self._statistics.batches += 1
        self._statistics.entries += len(batch)
        outcome: Outcome = yield from self._database.execute(
            pipeline.statements(self._database), self._process
        )
        if not outcome.is_known:
            self._statistics.unknown_commits += 1
            yield from self._explain_all(composed)
        elif outcome.error is not None:
            self._failed(batch, outcome.error)
        else:
            passed: set[StepWrite] = outcome.results[0]
            for written in composed:
                if written.entry in passed:
                    self._committed(written)
            yield from self._explain_all([one for one in composed if one.entry not in passed])

    def _lease_slice(self, batch: Sequence[StepWrite], day: int) -> Task[None]:
        needed = sum(opening.max_cost for entry in batch for opening in entry.openings)
        if not needed:
            return
        if self.slices.day == day and self.slices.slice_id and self.slices.free >= needed:
            self.slices.free -= needed
            return
        is_leased = yield from self.slices.lease(needed, day)
        if is_leased:
            self.slices.free -= needed
        elif len(batch) > 1:
            # Near the cap each entry reserves alone, so that a refusal concerns one.
            for entry in batch:
                entry.is_alone = True
        else:
            self._refuse(batch[0])

    def _refuse(self, entry: StepWrite) -> None:
        """Write everything of the entry but the calls that it wants to send."""
        self._statistics.refusals += 1
        entry.refused = True
        entry.openings = []

    def _resolve(self, entry: StepWrite) -> None:
        """Resolve facts against the graph as this process knows it; the fence compares that it is still so."""
        if not entry.facts:
            return
        view = self.view(entry.lease.agent)
        if entry.expected is not None:
            self._statistics.resolved_again += 1
        if entry.expected is None or self._breakage is not Breakage.NOT_RESOLVED_AGAIN:
            entry.changes = resolve(view, entry.facts)
        entry.expected = view.head

    def _committed(self, composed: Composed) -> None:
        composed.note_commit()
        view = self.view(composed.lease.agent)
        if composed.graph_head is not None and view.head == composed.expected:
            view.apply(composed.changes, composed.graph_head)
        composed.entry.refused = composed.is_refused
        self._end(composed.entry, None)

    def _failed(self, batch: Sequence[StepWrite], error: Exception) -> None:
        """On an error each entry is written alone, so that only the offender fails."""
        if len(batch) == 1 or self._breakage is Breakage.BATCH_FAILS_TOGETHER:
            for entry in batch:
                if not entry.is_poison:
                    raise ViolationError(f"a step fails that did nothing wrong: {error}")
                self._end(entry, error)
            return
        self._statistics.split_batches += 1
        for entry in batch:
            entry.is_alone = True
        self._waiting = [*batch, *self._waiting]

    def _explain_all(self, entries: Sequence[Composed]) -> Task[None]:
        for composed in entries:
            yield None
            self._explain(composed)
        if any(not composed.entry.is_done for composed in entries):
            yield RETRY_SECONDS * self._scheduler.random.random()

    def _explain(self, composed: Composed) -> None:
        """Find out, by one read, why an entry was not written, or whether it was."""
        entry, lease = composed.entry, composed.lease
        step: Step = self._database.read(step_key(lease.step_id))
        written = entry.tried.get(step.write)
        if self._breakage is Breakage.UNKNOWN_COMMIT_IS_DONE:
            written = composed
        if written is not None:
            # It may be an earlier try, with other calls or rows of the graph than the last one.
            self._committed(written)
            return
        if not is_own(step, composed, self._scheduler.now):
            lease.is_lost = True
            self._end(entry, LeaseLostError())
            return
        if entry.facts:
            self.view(lease.agent).advance(self._database.read)
        if entry.openings and self._is_cap_reached(entry):
            self._refuse(entry)
        elif entry.openings:
            # The slice may have lapsed or shrunk.
            self.slices.drop()
        entry.is_alone = True
        self._waiting.insert(0, entry)

    def _is_cap_reached(self, entry: StepWrite) -> bool:
        agent, day = entry.lease.agent, int(self._scheduler.now / DAY_SECONDS)
        budget: Budget = self._database.read(("budget", agent, day)) or Budget(0, 0)
        wanted = sum(opening.max_cost for opening in entry.openings)
        cap: int = self._database.read(("cap", agent))
        return budget.spent + budget.held + wanted > cap

    def _end(self, entry: StepWrite, error: Exception | None) -> None:
        entry.error = error
        entry.is_done = True
        self._scheduler.wake(entry.done)


__all__ = ["BudgetRefusedError", "ConstraintError", "LeaseLostError", "WriteQueue"]
