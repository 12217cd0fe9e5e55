"""A model of PostgreSQL: committed rows, transactions with row locks, pipelines that are cut off, unknown commits.

A pipeline is a list of statements that the server runs to its end, whether the client still lives or not. Other
transactions may run between two statements and while one waits for a lock. What is not modeled: a statement that waited
for a lock sees other rows as of now, not as of its start.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.support.simulation.scheduler import (
    Actor,
    Process,
    Scheduler,
    Steps,
    Task,
    ViolationError,
)

Key = tuple[Hashable, ...]
"""Table and primary key."""

_NOT_WRITTEN: Final = object()
MAX_LATENCY_SECONDS: Final = 0.3


class ConstraintError(Exception):
    """A constraint refuses a row; the transaction is rolled back."""


class DeadlockError(Exception):
    """Two transactions wait for each other; the transaction is rolled back."""


class Transaction:
    """What one transaction has written and locked."""

    __slots__ = ("_committed", "locked", "now", "results", "rows", "waits_for")

    def __init__(self, committed: Mapping[Key, Any], now: float) -> None:
        self._committed = committed
        self.now = now
        self.rows: dict[Key, Any] = {}
        self.locked: list[Key] = []
        self.waits_for: Key | None = None
        self.results: list[Any] = []
        """What the statements returned."""

    def read(self, key: Key) -> Any:
        """The row as this transaction sees it; None if there is none."""
        row = self.rows.get(key, _NOT_WRITTEN)
        return self._committed.get(key) if row is _NOT_WRITTEN else row

    def write(self, key: Key, row: Any) -> None:
        """Insert or update the row; None deletes it."""
        self.rows[key] = row

    def insert(self, key: Key, row: Any) -> None:
        """Insert the row. Raises ConstraintError if it exists."""
        if self.read(key) is not None:
            raise ConstraintError(f"duplicate key {key}")
        self.rows[key] = row


class Statement:
    """Locks rows in order, waiting for each, then applies its changes."""

    __slots__ = ("apply", "locks")

    def __init__(self, apply: Callable[[Transaction], Any], locks: Iterable[Key] = ()) -> None:
        self.apply = apply
        self.locks = locks


class Outcome:
    """How a pipeline ended, as its client sees it."""

    __slots__ = ("done", "error", "is_known", "is_over", "results")

    def __init__(self) -> None:
        self.done: list[Actor] = []
        self.is_over = False
        self.is_known = True
        """False: the connection was lost, and the transaction may be committed or not, now or later."""
        self.error: Exception | None = None
        self.results: Sequence[Any] = ()


class Backend:
    """The server's side of one pipeline."""

    __slots__ = ("actor", "client", "outcome", "transaction")

    def __init__(self, client: Process | None, outcome: Outcome, transaction: Transaction) -> None:
        self.client = client
        self.outcome = outcome
        self.transaction = transaction
        self.actor: Actor | None = None


class Database:
    def __init__(self, scheduler: Scheduler) -> None:
        self.rows: dict[Key, Any] = {}
        self.commits = 0
        self.on_commit: Callable[[Mapping[Key, Any], Mapping[Key, Any]], None] = lambda _, __: None
        """Called with the committed rows before a commit, and the rows that it writes."""
        self.backends: list[Backend] = []
        self._scheduler = scheduler
        self._holders: dict[Key, Transaction] = {}
        self._waiting: dict[Key, list[Actor]] = {}

    def read(self, key: Key) -> Any:
        return self.rows.get(key)

    def try_lock(self, transaction: Transaction, key: Key) -> bool:
        holder = self._holders.get(key)
        if holder is None:
            self._holders[key] = transaction
            transaction.locked.append(key)
            return True
        return holder is transaction

    def send(self, statements: Sequence[Statement], client: Process | None) -> Outcome:
        """Send a pipeline; the server runs it as one transaction."""
        backend = Backend(client, Outcome(), Transaction(self.rows, self._scheduler.now))
        self.backends.append(backend)
        backend.actor = self._scheduler.spawn(self._run(backend, statements))
        return backend.outcome

    def execute(self, statements: Sequence[Statement], client: Process | None) -> Task[Outcome]:
        """Send a pipeline and wait for its outcome; the generator returns it."""
        outcome = self.send(statements, client)
        while not outcome.is_over:
            yield outcome.done
        return outcome

    def cut_off(self, backend: Backend, *, aborts: bool) -> None:
        """Cut the connection: the client learns nothing. The server aborts, or it runs the pipeline to its end."""
        outcome = backend.outcome
        if not outcome.is_over:
            outcome.is_known = False
            self._end(outcome)
        if aborts:
            assert backend.actor is not None
            backend.actor.is_dead = True
            self._release(backend)

    def restart(self) -> None:
        """Abort all transactions."""
        for backend in list(self.backends):
            self.cut_off(backend, aborts=True)

    def _run(self, backend: Backend, statements: Sequence[Statement]) -> Steps:
        transaction, outcome = backend.transaction, backend.outcome
        try:
            yield self._scheduler.random.random() * MAX_LATENCY_SECONDS
            for statement in statements:
                yield None
                transaction.now = self._scheduler.now
                for key in statement.locks:
                    while not self.try_lock(transaction, key):
                        self._check_deadlock(transaction, key)
                        transaction.waits_for = key
                        yield self._waiting.setdefault(key, [])
                    transaction.waits_for = None
                    # Rows are locked one by one.
                    yield None
                transaction.results.append(statement.apply(transaction))
            yield None
        except (ConstraintError, DeadlockError) as error:
            outcome.error = error
        else:
            self._commit(transaction)
            outcome.results = transaction.results
        self._release(backend)
        # The client receives it a moment later; until then its connection may be lost.
        yield None
        if not outcome.is_over:
            self._end(outcome)

    def _commit(self, transaction: Transaction) -> None:
        self.commits += 1
        self.on_commit(self.rows, transaction.rows)
        self.rows.update(transaction.rows)

    def _release(self, backend: Backend) -> None:
        if backend in self.backends:
            self.backends.remove(backend)
        for key in backend.transaction.locked:
            del self._holders[key]
            if (waiting := self._waiting.get(key)) is not None:
                self._scheduler.wake(waiting)
        backend.transaction.locked = []

    def _end(self, outcome: Outcome) -> None:
        outcome.is_over = True
        self._scheduler.wake(outcome.done)

    def _check_deadlock(self, transaction: Transaction, key: Key) -> None:
        waits_for: Key | None = key
        while waits_for is not None:
            holder = self._holders.get(waits_for)
            if holder is None:
                return
            if holder is transaction:
                raise ViolationError(f"deadlock over {key}: two writers lock in different orders")
            waits_for = holder.waits_for
