"""The join: looks without a lock, decides if all steps of a stage have ended, and writes its decision by comparison."""

from typing import Final

from tests.support.simulation.breakages import Breakage
from tests.support.simulation.bus import ENDED as ENDED_QUEUE
from tests.support.simulation.bus import WORK, Bus, Message
from tests.support.simulation.database import Database, Outcome, Statement, Transaction
from tests.support.simulation.graph import View
from tests.support.simulation.rows import (
    ADVISE,
    END_STAGE,
    ENDED,
    FAILED,
    INSIGHT,
    OBSERVE,
    PENDING,
    PLANNED,
    QUERY,
    Iteration,
    Step,
    step_id,
    step_key,
)
from tests.support.simulation.scheduler import Process, Scheduler, Steps, Task, ViolationError
from tests.support.simulation.statistics import Statistics
from tests.support.simulation.step_write import settle_abandoned

SLOTS: Final = 2


class Aggregator:
    def __init__(
        self,
        scheduler: Scheduler,
        database: Database,
        bus: Bus,
        statistics: Statistics,
        number: int,
    ) -> None:
        self.process = Process(f"aggregator {number}")
        self._scheduler = scheduler
        self._database = database
        self._bus = bus
        self._statistics = statistics
        self._breakage = scheduler.breakage
        self._views: dict[int, View] = {}

    def start(self) -> None:
        for _ in range(SLOTS):
            self._scheduler.spawn(self._slot(), self.process)

    def _slot(self) -> Steps:
        while True:
            message: Message = yield from self._bus.pull(ENDED_QUEUE)
            is_done = yield from self.join(message.content)
            if is_done:
                self._bus.acknowledge(message)
            else:
                self._bus.reject(message, 0.5)

    def join(self, iteration_id: int) -> Task[bool]:
        """Move the iteration on if its stage is over. The generator returns whether that is known to be done."""
        seen: Iteration = self._database.read(("iteration", iteration_id))
        steps = {id_: self._database.read(step_key(id_)) for id_ in seen.step_ids}
        yield None
        if not _is_over(seen, steps):
            self._publish(seen.step_ids)
            return True
        agent = next(iter(steps.values())).agent
        view = self._views.setdefault(agent, View(agent))
        view.advance(self._database.read)
        context = (view.head.seq, view.digest)

        def move(transaction: Transaction) -> bool:
            is_as_seen = transaction.read(("iteration", iteration_id)) == seen
            if not is_as_seen and self._breakage is not Breakage.JOIN_WITHOUT_COMPARISON:
                return False
            _move_on(transaction, iteration_id, seen, steps, context)
            return True

        outcome: Outcome = yield from self._database.execute(
            [Statement(move, [("iteration", iteration_id)])], self.process
        )
        if outcome.error is not None:
            raise ViolationError(f"a join failed: {outcome.error}")
        if not outcome.is_known:
            return False
        self._statistics.joins += 1
        moved: Iteration = self._database.read(("iteration", iteration_id))
        self._publish(moved.step_ids)
        return True

    def abandon(self, iteration_id: int) -> Task[None]:
        """Fail the steps of a stage that takes too long, and settle what they have in flight."""
        seen: Iteration = self._database.read(("iteration", iteration_id))
        open_ids = sorted(
            id_
            for id_ in seen.step_ids
            if self._database.read(step_key(id_)).status not in (*ENDED, PLANNED)
        )
        if not open_ids:
            return

        def abandon_all(transaction: Transaction) -> int:
            count = 0
            for id_ in open_ids:
                step: Step = transaction.read(step_key(id_))
                if step.status in ENDED:
                    continue
                if self._breakage is not Breakage.JOIN_ABANDONS_WITHOUT_SETTLING:
                    settle_abandoned(transaction, id_, step)
                ended = step.with_fields(status=FAILED, epoch=step.epoch + 1, in_flight=())
                transaction.write(step_key(id_), ended)
                count += 1
            return count

        # The statement that locks the steps finds out which budgets and slices they hold.
        def lock_rest(transaction: Transaction) -> None:
            calls = [
                (transaction.read(step_key(id_)).agent, call)
                for id_ in open_ids
                for call in transaction.read(step_key(id_)).in_flight
            ]
            rest.locks = [
                ("iteration", iteration_id),
                *sorted({("budget", agent, call.day) for agent, call in calls}),
                *sorted({("slice", call.slice_id) for _, call in calls}),
            ]

        rest = Statement(abandon_all)
        outcome: Outcome = yield from self._database.execute(
            [Statement(lock_rest, [step_key(id_) for id_ in open_ids]), rest], self.process
        )
        if outcome.is_known:
            self._statistics.abandoned_steps += outcome.results[1]
            self._bus.publish(ENDED_QUEUE, iteration_id)

    def _publish(self, step_ids: tuple[int, ...]) -> None:
        for id_ in step_ids:
            step: Step = self._database.read(step_key(id_))
            if step.status == PENDING and not step.seq:
                self._bus.publish(WORK, id_)


def _is_over(iteration: Iteration, steps: dict[int, Step]) -> bool:
    return iteration.stage != END_STAGE and all(
        step.status in ENDED for step in steps.values() if step.kind == iteration.stage
    )


def _move_on(
    transaction: Transaction,
    iteration_id: int,
    iteration: Iteration,
    steps: dict[int, Step],
    context: tuple[int, int],
) -> None:
    """Request the steps of the next stage with a pinned context, or end the iteration."""
    key = ("iteration", iteration_id)
    agent = next(iter(steps.values())).agent
    graph_seq, digest = context
    if iteration.stage == OBSERVE or iteration.stage == ADVISE:
        # An observe step that completed has moved the iteration on itself.
        transaction.write(key, Iteration(END_STAGE, iteration.step_ids))
        return
    if transaction.read(("context", agent, graph_seq)) is None:
        transaction.write(("context", agent, graph_seq), digest)
    if iteration.stage == QUERY:
        for id_, step in steps.items():
            if step.kind == INSIGHT:
                requested = step.with_fields(status=PENDING, graph_seq=graph_seq)
                transaction.write(step_key(id_), requested)
        transaction.write(key, Iteration(INSIGHT, iteration.step_ids))
        return
    advise = step_id(iteration_id, ADVISE, 0)
    requested = Step(agent, iteration_id, ADVISE, PENDING).with_fields(graph_seq=graph_seq)
    transaction.insert(step_key(advise), requested)
    transaction.write(key, Iteration(ADVISE, (*iteration.step_ids, advise)))
