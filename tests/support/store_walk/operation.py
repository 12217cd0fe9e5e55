"""Operations of stores, with what their repetition does; and how to find them and the modules that write."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Generic, TypeVar, get_args, get_type_hints

from services.api.auth.dependencies import Access, AgentAccess
from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery, CommitForbiddenError, Executor
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from tests.support.store_walk.world import World

W = TypeVar("W", bound=World)


class Fault(StrEnum):
    CANCELLED_BEFORE = "cancelled before"
    CANCELLED_DURING = "cancelled during"
    """The request has been sent."""
    LOST_BEFORE = "connection lost before"
    LOST_AFTER = "connection lost after"
    """PostgreSQL has executed the request."""

    @property
    def is_cancellation(self) -> bool:
        return self in (Fault.CANCELLED_BEFORE, Fault.CANCELLED_DURING)

    @property
    def is_before(self) -> bool:
        return self in (Fault.CANCELLED_BEFORE, Fault.LOST_BEFORE)


class Again(StrEnum):
    """What a repetition of an operation that was committed does, unless it raises."""

    NOTHING = "it changes nothing"
    JOURNAL = "it changes nothing, but is noted in the journal of the graph"
    WRITES = "it writes again: its caller repeats it only if it was not committed"


Statements = BoundQuery[Any] | Sequence[BoundQuery[Any]]


@dataclass(frozen=True)
class Operation(Generic[W]):
    """One operation: in a transaction of the walk, or in its own."""

    run: Callable[[W, Transaction], Awaitable[object]] | None = None
    query: Callable[[W], Statements] | None = None
    """Of an operation that is one or more statements: it is also written in one round trip."""
    alone: Callable[[W], Awaitable[object]] | None = None
    """Of an operation that opens its own transactions."""
    again: Again | type[Exception] = Again.NOTHING
    prepare: Sequence[str] = ()
    """SQL before the operation."""
    case: str = ""
    """Which one of several operations of the same function."""
    hides_errors: bool = False
    """Whether it goes on if PostgreSQL is unavailable."""
    is_durable: bool = False
    """Whether it is whole after every failure, whether or not it raises: it writes what was paid for."""
    is_batched: bool = False
    """Whether it is several transactions. A repetition completes what a failure has left."""

    @property
    def ways(self) -> Mapping[str, Callable[[W], Awaitable[object]]]:
        """The ways in which it is executed, by name."""
        if self.alone is not None:
            return {"alone": self.alone}
        if self.query is None:
            return {"in a transaction": self.execute}
        return {"in a transaction": self.execute, "in one round trip": self.write}

    def queries(self, world: W) -> Sequence[BoundQuery[Any]]:
        assert self.query is not None
        made = self.query(world)
        return [made] if isinstance(made, BoundQuery) else made

    async def execute(self, world: W) -> None:
        """In a transaction, statement by statement."""
        async with world.database.transaction() as transaction:
            if self.run is not None:
                await self.run(world, transaction)
                return
            for query in self.queries(world):
                await query.execute(transaction)

    async def write(self, world: W) -> None:
        """In one round trip, or statement by statement if one forbids to commit."""
        batch = Batch()
        for query in self.queries(world):
            batch.add(query)
        try:
            await world.database.write(batch)
        except CommitForbiddenError:
            await self.execute(world)


@dataclass(frozen=True)
class Part(Generic[W]):
    """Stores whose operations are executed in the same world."""

    name: str
    make_world: Callable[[Database], Awaitable[W]]
    stores: Sequence[ModuleType]
    operations: Mapping[Any, Operation[W] | Sequence[Operation[W]]]
    reads: Set[Any]
    """Functions that read, and take locks at most."""
    frames: Set[Any]
    """Functions that run what they are given, or that are parts of operations of the table."""
    short_faults: Sequence[Fault] = tuple(Fault)
    """Those that the short form of the walk tries."""

    @property
    def all_operations(self) -> Iterator[tuple[str, Operation[W]]]:
        """The operations with their names."""
        for function, given in self.operations.items():
            module = function.__module__.removeprefix("shared.")
            for each in [given] if isinstance(given, Operation) else given:
                yield f"{module}.{function.__qualname__} {each.case}".strip(), each


def database_functions(module: ModuleType) -> set[Any]:
    """The public functions and methods of a module that execute statements, return them, or have them executed."""
    own = [
        each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__
    ]
    functions = {
        each for each in own if inspect.isfunction(each) and _touches_database(inspect.unwrap(each))
    }
    for each in own:
        if inspect.isclass(each) and not each.__name__.startswith("_"):
            methods = [method for method in vars(each).values() if inspect.isfunction(method)]
            initializer = vars(each).get("__init__")
            holds_database = initializer is not None and _touches_database(initializer)
            functions |= {
                method
                for method in methods
                if _touches_database(inspect.unwrap(method))
                or (holds_database and _is_asynchronous(inspect.unwrap(method)))
            }
    return {each for each in functions if not each.__name__.startswith("_")}


def _touches_database(function: Any) -> bool:
    hints = get_type_hints(function)
    result = str(hints.pop("return", ""))
    given = [each for hint in hints.values() for each in (hint, *get_args(hint))]
    return "BoundQuery" in result or any(each in _GIVEN for each in given)


_GIVEN: Final = (Transaction, Executor, Database, Batch, UnitOfWork, Access, AgentAccess)


def _is_asynchronous(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


_WRITES: Final = (
    re.compile(
        r"\binsert\s+into\b|\bupdate\s+[\w{}.]+\s+(as\s+\w+\s+)?set\b|\bdelete\s+from\b|\bfrom stdin\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"^from sqlalchemy[\w.]* import ([^(\n]*|\([^)]*)\b(insert|update|delete)\b", re.MULTILINE
    ),
    re.compile(r"\b(transaction|session)\.(insert|insert_all|update|execute_each)\("),
)


def writing_modules(root: Path, packages: Sequence[str]) -> set[str]:
    """The modules that have SQL that writes, build it with SQLAlchemy, or write rows with a method of `Transaction`."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for package in packages
        for path in (root / package).rglob("*.py")
        for source in [path.read_text()]
        if any(pattern.search(source) for pattern in _WRITES)
    }
