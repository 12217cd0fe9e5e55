"""What is seen of an installation at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Held:
    """By a process, or by a server with all that it has started."""

    rss_bytes: int
    """Pages that several share are counted for each of them."""
    pss_bytes: int
    """Shared pages are divided among those who share them: it can be summed."""
    private_bytes: int
    processes: int
    files: int
    """Open ones, sockets among them."""
    seconds: float
    """Processor time so far."""


@dataclass(frozen=True)
class Table:
    bytes: int
    """With its indexes and TOAST."""
    live_rows: int
    dead_rows: int
    """Both as PostgreSQL estimates them."""
    autovacuums: int


@dataclass(frozen=True)
class Stream:
    messages: int
    bytes: int


@dataclass(frozen=True)
class Queue:
    lag: int
    """Messages that nobody has taken yet."""
    in_flight: int
    redelivered: int
    """Of those in flight, how many were not delivered for the first time."""


@dataclass(frozen=True)
class Work:
    """Iterations and steps, since the beginning where nothing else is said."""

    started: int
    completed: int
    failed: int
    with_errors: int
    running: int
    untold: int
    """Ended, and the scheduler has not heard of it yet."""
    open_steps: int
    lapsed_leases: int
    failed_steps: int
    resends: int
    """How often the reconciler has asked for a step again."""
    dead_letters: int
    nodes: int
    edges: int
    merges: int
    context_bytes: float | None
    """What a phase was shown of the graph, on average since the last sample."""


@dataclass(frozen=True)
class Sample:
    at_seconds: float
    """Since the agents were let run."""
    processes: Mapping[str, Held]
    tables: Mapping[str, Table]
    streams: Mapping[str, Stream]
    queues: Mapping[str, Queue]
    wal_bytes: int
    """Of PostgreSQL's log, as files."""
    work: Work
    seconds: Sequence[float]
    """What each iteration took that has completed since the last sample."""

    @property
    def lag(self) -> int:
        return sum(each.lag + each.in_flight for each in self.queues.values())

    @property
    def is_at_rest(self) -> bool:
        """Nothing waits, nothing runs, and every end was heard."""
        work = self.work
        return not (self.lag or work.running or work.open_steps or work.untold)


@dataclass
class Run:
    agents: int
    period_seconds: int
    warm_up_seconds: float
    wanted_seconds: float
    load_before: float = 0.0
    """Processes that wanted a core, as the kernel counted them over the minute before it began."""
    ran_seconds: float = 0.0
    """Up to the last look."""
    is_whole: bool = False
    """It was not ended early."""
    samples: list[Sample] = field(default_factory=list)
    """While the agents ran."""
    at_rest: Sample | None = None
    """After they were stopped and what ran had ended, or was waited for too long; None where that was not seen."""
    failures: list[str] = field(default_factory=list)
    """Samples that could not be taken, and why."""
    complaints: list[str] = field(default_factory=list)
    """What the actors have warned of."""

    @property
    def steady(self) -> Sequence[Sample]:
        """Those after the warm-up."""
        return [each for each in self.samples if each.at_seconds >= self.warm_up_seconds]
