"""The rows of the model, and the keys of their tables.

Amounts are whole units of money. `digest` is a hash of the content of a graph; `chain` of the journal up to a position.
"""

from typing import Final, NamedTuple

from tests.support.simulation.database import Key
from tests.support.simulation.scheduler import Fields

OBSERVE, QUERY, INSIGHT, ADVISE = range(4)
PLANNED, PENDING, RUNNING, COMPLETED, FAILED = range(5)
ENDED: Final = (COMPLETED, FAILED)
END_STAGE: Final = 4
"""Stages before it have the number of the kind of their steps."""

INSTALLATION: Final = -1
"""The scope of the installation's cap."""

LEASE_SECONDS: Final = 10.0


class InFlight(NamedTuple):
    """A call whose outcome is not recorded. It was sent, or may have been."""

    request: int
    attempt: int
    reserved: int
    slice_id: int
    day: int


class Paid(NamedTuple):
    """A row of the ledger: an answered call, or one whose outcome is unknown, at its assumed cost."""

    cost: int
    attempt: int
    slice_id: int
    day: int


class Run(NamedTuple):
    """The context that a step was given."""

    graph_seq: int
    digest: int


class Head(NamedTuple):
    """The position of a graph in its history."""

    seq: int
    chain: int


class Journal(NamedTuple):
    """One commit of a graph: which rows it changed or deleted."""

    keys: tuple[Key, ...]
    chain: int


class Node(NamedTuple):
    """A node: its evidence (id, time, value), and the value of the latest."""

    evidence: frozenset[tuple[int, int, int]]
    value: int


class Budget(NamedTuple):
    """An agent's day."""

    spent: int
    held: int


class InstallationDay(NamedTuple):
    """What is granted to slices that exist, and what was spent from those that were returned."""

    granted: int
    spent: int


class Slice(NamedTuple):
    """A part of the installation's budget of one day that one worker may reserve from."""

    worker: int
    day: int
    granted: int
    spent: int
    held: int
    lease_until: float

    @property
    def free(self) -> int:
        return self.granted - self.spent - self.held


class Iteration(NamedTuple):
    stage: int
    step_ids: tuple[int, ...]


class Step(Fields):
    __slots__ = (
        *("agent", "epoch", "graph_seq", "in_flight", "iteration", "kind", "lease_until", "owner"),
        *("retry_at", "seq", "status", "write"),
    )

    def __init__(self, agent: int, iteration: int, kind: int, status: int) -> None:
        self.agent = agent
        self.iteration = iteration
        self.kind = kind
        self.status = status
        self.epoch = 0
        """The fencing token: it grows with every claim."""
        self.seq = 0
        """It grows with every write of a worker."""
        self.write = 0
        """The number of the transaction that wrote the step last."""
        self.owner = 0
        self.lease_until = 0.0
        self.retry_at = 0.0
        self.in_flight: tuple[InFlight, ...] = ()
        self.graph_seq: int | None = None
        """The pinned position of the step's context."""


def step_id(iteration: int, kind: int, index: int) -> int:
    return (iteration * 4 + kind) * 8 + index


def step_key(step: int) -> Key:
    return ("step", step)


def fold(evidence: frozenset[tuple[int, int, int]]) -> Node:
    """The node that follows from its evidence: the latest value wins, whatever the order of writing."""
    latest = max(evidence, key=lambda item: (item[1], item[0]))
    return Node(evidence, latest[2])


def mix(*numbers: int) -> int:
    """A pseudo-random number that depends on nothing else."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = ((value ^ number) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        value ^= value >> 29
    return value
