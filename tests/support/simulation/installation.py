"""One small installation: agents, workers, aggregators, a scheduler, and everything that can go wrong."""

from typing import Final

from tests.support.simulation.aggregator import Aggregator
from tests.support.simulation.breakages import Breakage
from tests.support.simulation.bus import ENDED as ENDED_QUEUE
from tests.support.simulation.bus import WORK, Bus
from tests.support.simulation.database import Database, Outcome, Statement, Transaction
from tests.support.simulation.graph import ENTITIES, merge_statement
from tests.support.simulation.invariants import Checker
from tests.support.simulation.outage import Outage
from tests.support.simulation.provider import Provider
from tests.support.simulation.rows import (
    END_STAGE,
    ENDED,
    INSTALLATION,
    OBSERVE,
    PENDING,
    RUNNING,
    Iteration,
    Step,
    step_id,
    step_key,
)
from tests.support.simulation.scheduler import Process, Scheduler, Steps, Task, ViolationError
from tests.support.simulation.statistics import Statistics
from tests.support.simulation.worker import Worker

AGENTS: Final = 4
ITERATIONS: Final = 2
"""Of each agent."""
WORKERS: Final = 2
AGGREGATORS: Final = 2
RECONCILE_SECONDS: Final = 8.0
ABANDONED: Final = 1 / 50
"""Probability that a look of the reconciler abandons the steps of an iteration."""
MAX_OUTAGE_BEGIN: Final = 20.0
RETURN_SECONDS: Final = 60.0
STEPS_PER_FAULT: Final = 300
MAX_STEPS: Final = 400_000
AGENT_CAPS: Final = (150, 400)
INSTALLATION_CAPS: Final = (400, 1600)


class SimulatedInstallation:
    def __init__(
        self, seed: int, breakage: Breakage | None = None, *, outage_seconds: float = 0.0
    ) -> None:
        """With `outage_seconds`, the provider is away for so long, soon after the start."""
        self._seed = seed
        self.statistics = Statistics(installations=1)
        self._scheduler = scheduler = Scheduler(seed, breakage)
        self._random = scheduler.random
        self._database = Database(scheduler)
        self._bus = Bus(scheduler, self.statistics)
        self._provider = Provider(self._database, self.statistics, self._call_seconds)
        self._checker = Checker(scheduler, self._database, self._provider, self._bus)
        begin = scheduler.random.uniform(0, MAX_OUTAGE_BEGIN) if outage_seconds else 0.0
        self.outage = Outage(scheduler, begin, outage_seconds)
        self._workers: list[Worker] = []
        self._aggregators: list[Aggregator] = []
        self._count = 0
        self._started = [0] * AGENTS
        self._has_ended = False

    def run(self) -> Statistics:
        """Run to the end of all iterations. Raises ViolationError."""
        try:
            self._run()
        finally:
            self._scheduler.close()
        self.statistics.steps = self._scheduler.steps
        self.statistics.commits = self._database.commits
        self.statistics.iterations = AGENTS * ITERATIONS
        return self.statistics

    def _run(self) -> None:
        for scope in (*range(AGENTS), INSTALLATION):
            self._set_cap(scope)
        for _ in range(WORKERS):
            self._start_worker()
        for _ in range(AGGREGATORS):
            self._start_aggregator()
        self._scheduler.spawn(self._reconcile())
        self._scheduler.spawn(self._merge())
        self._scheduler.spawn(self._change_caps())
        if self.outage.end:
            self._scheduler.spawn(self._check_return())
        self._scheduler.inject(self._fault, STEPS_PER_FAULT)
        max_steps = MAX_STEPS * (1 + int(self.outage.end / 100))
        self._scheduler.run(lambda: self._has_ended, max_steps)
        self._settle()
        self._checker.check_end(AGENTS, ITERATIONS)

    def _check_return(self) -> Steps:
        """All steps that wait go on within a minute of the end of the outage, if nothing else goes wrong meanwhile."""
        yield self.outage.end
        waiting = [step for step in self._open_steps() if step.retry_at > self._scheduler.now]
        self._scheduler.inject(None)
        for worker in self._workers:
            worker.process.paused_until = 0.0
        yield RETURN_SECONDS
        if self.outage.state.unavailable_since is not None and waiting:
            raise ViolationError("the provider is back, and no worker has noticed it")
        if late := [step for step in self._open_steps() if step in waiting]:
            raise ViolationError(f"{len(late)} steps still wait for a provider that is back")
        self._scheduler.inject(self._fault, STEPS_PER_FAULT)

    def _open_steps(self) -> list[Step]:
        iterations = [
            self._database.read(("iteration", self._iteration(agent))) for agent in range(AGENTS)
        ]
        rows = [
            self._database.read(step_key(id_))
            for iteration in iterations
            if iteration is not None
            for id_ in iteration.step_ids
        ]
        return [step for step in rows if step.status == PENDING]

    def _settle(self) -> None:
        """Let what is under way end, so that a late write would be seen."""
        self._scheduler.inject(None)
        until = self._scheduler.now + 60
        self._scheduler.run(lambda: self._scheduler.now >= until, MAX_STEPS)

    def _call_seconds(self) -> float:
        """Most calls take one of a few durations, so that their answers come together and share a batch."""
        chance = self._random.random()
        return 30 * chance if chance > 0.95 else 0.5 * int(5 * chance)

    def _start_worker(self) -> None:
        self._count += 1
        worker = Worker(
            self._scheduler,
            self._database,
            self._bus,
            self._provider,
            self.statistics,
            self._count,
            self.outage,
        )
        self._workers.append(worker)
        worker.start()

    def _start_aggregator(self) -> None:
        self._count += 1
        aggregator = Aggregator(
            self._scheduler, self._database, self._bus, self.statistics, self._count
        )
        self._aggregators.append(aggregator)
        aggregator.start()

    def _fault(self) -> None:
        chance = self._random.random()
        if chance < 0.15:
            self._kill(self._random.choice(self._workers).process)
        elif chance < 0.2:
            self._kill(self._random.choice(self._aggregators).process)
        elif chance < 0.4:
            self.statistics.paused_processes += 1
            process = self._random.choice(self._workers).process
            process.paused_until = self._scheduler.now + 30 * self._random.random()
        elif chance < 0.97:
            if self._database.backends:
                self.statistics.cut_connections += 1
                backend = self._random.choice(self._database.backends)
                self._database.cut_off(backend, aborts=self._random.random() < 0.5)
        else:
            self.statistics.database_restarts += 1
            self._database.restart()
        self._checker.check_accounts()

    def _kill(self, process: Process) -> None:
        """Kill a process; another one starts a moment later. The server may run its pipelines to their end."""
        if not process.is_alive:
            return
        self.statistics.killed_processes += 1
        process.is_alive = False
        for backend in [item for item in self._database.backends if item.client is process]:
            self._database.cut_off(backend, aborts=self._random.random() < 0.5)
        self._scheduler.spawn(self._restart(process))

    def _restart(self, process: Process) -> Steps:
        yield 2 * self._random.random()
        if any(worker.process is process for worker in self._workers):
            self._workers = [item for item in self._workers if item.process is not process]
            self._start_worker()
        else:
            self._aggregators = [item for item in self._aggregators if item.process is not process]
            self._start_aggregator()

    def _reconcile(self) -> Steps:
        """Start due iterations, and publish again what was lost."""
        while not self._has_ended:
            states = [
                self._database.read(("iteration", self._iteration(agent)))
                for agent in range(AGENTS)
            ]
            for agent, iteration in enumerate(states):
                if iteration is None or iteration.stage == END_STAGE:
                    if self._started[agent] < ITERATIONS:
                        yield from self._start_iteration(agent)
                    continue
                self._publish_again(self._iteration(agent), iteration)
                if not self.outage.has_effect and self._random.random() < ABANDONED:
                    yield from self._random.choice(self._aggregators).abandon(
                        self._iteration(agent)
                    )
            self._has_ended = all(
                self._started[agent] == ITERATIONS
                and self._database.read(("iteration", self._iteration(agent))).stage == END_STAGE
                for agent in range(AGENTS)
            )
            yield RECONCILE_SECONDS

    def _iteration(self, agent: int) -> int:
        """The id of the agent's last iteration. It differs between seeds, and with it what all steps do."""
        return (self._seed * AGENTS + agent) * 100 + self._started[agent]

    def _start_iteration(self, agent: int) -> Task[None]:
        iteration_id = self._iteration(agent) + 1
        observe = step_id(iteration_id, OBSERVE, 0)

        def insert(transaction: Transaction) -> None:
            step = Step(agent, iteration_id, OBSERVE, PENDING)
            transaction.insert(step_key(observe), step)
            transaction.insert(("iteration", iteration_id), Iteration(OBSERVE, (observe,)))

        outcome: Outcome = yield from self._database.execute([Statement(insert)], None)
        while not outcome.is_known and self._database.read(step_key(observe)) is None:
            if not self._database.backends:
                return
            yield 0.1
        self._started[agent] += 1
        self._bus.publish(WORK, observe)

    def _publish_again(self, iteration_id: int, iteration: Iteration) -> None:
        for id_ in iteration.step_ids:
            step: Step = self._database.read(step_key(id_))
            if step.kind != iteration.stage:
                continue
            if step.status == PENDING or (
                step.status == RUNNING and step.lease_until < self._scheduler.now
            ):
                self._bus.publish(WORK, id_)
            elif step.status in ENDED:
                self._bus.publish(ENDED_QUEUE, iteration_id)

    def _merge(self) -> Steps:
        """The owner merges nodes of different entities."""
        while True:
            yield 15 * self._random.random()
            agent = self._random.randrange(AGENTS)
            kept, merged = self._random.sample(range(ENTITIES), 2)
            statement = merge_statement(
                agent,
                kept,
                merged,
                with_head=self._scheduler.breakage is not Breakage.MERGE_WITHOUT_HEAD,
            )
            outcome: Outcome = yield from self._database.execute([statement], None)
            if outcome.is_known and outcome.results[0]:
                self.statistics.merges += 1

    def _change_caps(self) -> Steps:
        while True:
            yield 60 * self._random.random()
            scope = self._random.choice((*range(AGENTS), INSTALLATION))
            before = self._database.read(("cap", scope))
            self._set_cap(scope)
            self.statistics.lowered_caps += self._database.read(("cap", scope)) < before

    def _set_cap(self, scope: int) -> None:
        """Set a daily cap at random: at times so low that work stops until the next day."""
        cap = self._random.randint(*(INSTALLATION_CAPS if scope == INSTALLATION else AGENT_CAPS))
        self._database.on_commit(self._database.rows, {("cap", scope): cap})
        self._database.rows["cap", scope] = cap
