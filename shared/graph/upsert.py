"""Upserts: write evidence of a node or edge and, in the same transaction, the properties that follow from it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from uuid import UUID

from shared.database.statements import (
    STRICT,
    BoundQuery,
    CompiledStatement,
    Executor,
    InTransaction,
    RoundTrip,
    Transaction,
    expand_values,
    json_text,
    uuid_array,
)
from shared.database.tables import Evidence, GraphEdge, GraphName, GraphNode
from shared.database.tables.base import Base
from shared.errors import RetrySoonError
from shared.graph.projection import list_claims
from shared.graph.prompt_format import format_utc
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, PreviousValue, PropertyChange, apply_claims
from shared.graph.provenance.evidence import VerifiedQuote
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.tools import Json

Rows = Sequence[Mapping[str, Any]]

_IS_RETRACTED: Final = "exists (select from retracted)"
_ELEMENT_COLUMNS: Final = {
    "id": ":id",
    "agent_id": OWNED_AGENT_ID_SQL,
    "type": ":type",
    "properties": "cast(:properties as jsonb)",
    "seal": ":seal",
    "iteration_id": "cast(:iteration_id as uuid)",
    "step_id": "cast(:step_id as uuid)",
}
_EDGE_COLUMNS: Final = {"source_id": ":source_id", "target_id": ":target_id"}


def _insert_json_sql(table: type[Base], parameter: str, where: str) -> str:
    """Insert the JSON rows of a parameter; columns with a server default are left to the database."""
    name = table.__tablename__
    columns = ", ".join(
        column.name for column in table.__table__.c if column.server_default is None
    )
    rows = f"jsonb_populate_recordset(cast(null as {name}), cast(:{parameter} as jsonb))"
    return f"insert into {name} ({columns}) select {columns} from {rows} where {where}"


def _insert_element_sql(table: str, columns: Mapping[str, str], where: str) -> str:
    values = {**_ELEMENT_COLUMNS, **columns}
    return (
        f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())}"
        # The id is derived from the unique columns, so two unique keys conflict at once. "On conflict do update" checks
        # only one of them and fails on the other when two workers insert concurrently. "Do nothing" checks both.
        f" where {where} on conflict do nothing returning id"
    )


def _update_element_sql(table: str) -> str:
    return (
        f"update {table} set properties = cast(:properties as jsonb), seal = :seal,"
        # The new evidence quotes a source that is not retracted.
        " unsupported_since = null, updated_at = clock_timestamp()"
        f" where {IS_OWNED_SQL} and id = :id and not {_IS_RETRACTED} returning id"
    )


# The same order in every transaction prevents deadlocks.
_IN_ORDER: Final = 'order by type collate "C", key collate "C" on conflict do nothing'
_RESERVE_NAMES: Final = CompiledStatement(
    f"{_insert_json_sql(GraphName, 'names', 'true')} {_IN_ORDER}"
)
_RESERVE_NAMES_SQL: Final = (
    f"{_insert_json_sql(GraphName, 'names', f'not {_IS_RETRACTED}')} {_IN_ORDER} returning key"
)
_ALL_NAMES_RESERVED_SQL: Final = (
    "(select count(*) from taken) = jsonb_array_length(cast(:names as jsonb))"
)


def _insert_new_sql(table: type[Base], parameter: str, where: str = "true") -> str:
    """Insert the elements of a parameter, in order. They belong to the agent of the scope."""
    name = table.__tablename__
    columns = {*_ELEMENT_COLUMNS, *(_EDGE_COLUMNS if table is GraphEdge else {"name": ""})}
    values = {column: f"row.{column}" for column in sorted(columns)}
    values["agent_id"] = OWNED_AGENT_ID_SQL
    return (
        f"insert into {name} ({', '.join(values)}) select {', '.join(values.values())}"
        f" from jsonb_populate_recordset(cast(null as {name}), cast(:{parameter} as jsonb)) as row"
        f" where {where} on conflict do nothing returning id"
    )


def _write_sql(element_sql: str, preceding_ctes: str = "") -> str:
    """SQL template; `expand_values` fills in the ids of the quoted sources."""
    # Existing evidence is not changed.
    evidence_sql = f"{_insert_json_sql(Evidence, 'evidence', 'exists (select from element)')} on conflict do nothing"
    return (
        "with retracted as (select 1 from sources where id in ({values}) and retracted_at is not null),"
        f" {preceding_ctes}element as ({element_sql}), inserted_evidence as ({evidence_sql})"
        f" select exists (select from element) as is_written, {_IS_RETRACTED} as is_retracted"
    )


INSERT_NODE_SQL: Final = _write_sql(
    _insert_element_sql(
        "graph_nodes", {"name": ":name"}, f"{_ALL_NAMES_RESERVED_SQL} and not {_IS_RETRACTED}"
    ),
    f"taken as ({_RESERVE_NAMES_SQL}), ",
)
"""If one of several names cannot be reserved, the caller must roll back the others."""
INSERT_EDGE_SQL: Final = _write_sql(
    _insert_element_sql("graph_edges", _EDGE_COLUMNS, f"not {_IS_RETRACTED}")
)
UPDATE_NODE_SQL: Final = _write_sql(_update_element_sql("graph_nodes"))
"""For a row that exists and is locked."""
UPDATE_EDGE_SQL: Final = _write_sql(_update_element_sql("graph_edges"))


_NOT_RETRACTED: Final = f"not {_IS_RETRACTED}"
_WRITTEN_SQL: Final = "(select count(*) from nodes) + (select count(*) from edges)"


def _refuse_commit_sql(condition: str) -> str:
    return f"case when :strict and ({condition}) then roll_back() end"


_WRITE_FACTS: Final = CompiledStatement(
    "with retracted as (select 1 from sources where id = any(cast(:sources as uuid[])) and retracted_at is not null),"
    f" taken as ({_RESERVE_NAMES_SQL}),"
    f" nodes as ({_insert_new_sql(GraphNode, 'nodes', _NOT_RETRACTED)}),"
    f" edges as ({_insert_new_sql(GraphEdge, 'edges', _NOT_RETRACTED)}),"
    f" inserted_evidence as ({_insert_json_sql(Evidence, 'evidence', _NOT_RETRACTED)} on conflict do nothing),"
    f" result as (select (select count(*) from taken) + {_WRITTEN_SQL} as written, {_IS_RETRACTED} as is_retracted)"
    f" select *, {_refuse_commit_sql('written <> :expected or is_retracted')} from result"
)
_RESULT_SQL: Final = (
    " result as (select count(*) as written, false as is_retracted from written)"
    f" select *, {_refuse_commit_sql('written <> :expected')} from result"
)
# Of their own: the services that write facts may not write citations, and not all that write conclusions may write edges.
# PostgreSQL demands the right even of what writes nothing.
_WRITE_CONCLUSIONS: Final = CompiledStatement(
    f"with written as ({_insert_new_sql(GraphNode, 'nodes')}),"
    " cited as (insert into citations (conclusion_id, cited_id)"
    "   select conclusion_id, cited_id from jsonb_to_recordset(cast(:citations as jsonb)) as row"
    f"   (conclusion_id uuid, cited_id uuid) on conflict do nothing), {_RESULT_SQL}"
)
_WRITE_LINKS: Final = CompiledStatement(
    f"with written as ({_insert_new_sql(GraphEdge, 'edges')}), {_RESULT_SQL}"
)


EdgeKey = tuple[str, UUID, UUID]
"""Type, source and target of an edge."""


@dataclass
class ElementBuffer:
    """New nodes and edges of several tools, which are written in one statement, and what those tools have looked up.

    The lookups were made before the first tool has run; code that uses one adds what was written since. Either facts or
    conclusions wait.
    """

    scope: GraphScope
    lookups: dict[Any, Any] = field(default_factory=dict)
    written_names: dict[tuple[str, str], tuple[UUID, str]] = field(default_factory=dict)
    """By type and key, the node and its name."""
    written_nodes: dict[UUID, Mapping[str, Any]] = field(default_factory=dict)
    written_edges: set[EdgeKey] = field(default_factory=set)
    _names: list[Mapping[str, Any]] = field(default_factory=list)
    _nodes: list[Mapping[str, Any]] = field(default_factory=list)
    _edges: list[Mapping[str, Any]] = field(default_factory=list)
    _evidence: list[Mapping[str, Any]] = field(default_factory=list)
    _citations: list[Mapping[str, Any]] = field(default_factory=list)

    def add_node(self, node: Mapping[str, Any], evidence: Rows, names: Rows) -> None:
        self._nodes.append(node)
        self._evidence += evidence
        self._names += names
        self.written_nodes[node["id"]] = node
        self.note_names(names, node["name"])

    def add_conclusion(self, node: Mapping[str, Any], cited: Iterable[UUID]) -> None:
        self._nodes.append(node)
        self._citations += [
            {"conclusion_id": node["id"], "cited_id": cited_id} for cited_id in cited
        ]
        self.written_nodes[node["id"]] = node

    def add_edge(self, edge: Mapping[str, Any], evidence: Rows = ()) -> None:
        self._edges.append(edge)
        self._evidence += evidence
        self.written_edges.add((edge["type"], edge["source_id"], edge["target_id"]))

    def note_names(self, names: Rows, node_name: str) -> None:
        """Notes names that are reserved now for the node of that name."""
        self.written_names |= {
            (row["type"], row["key"]): (row["node_id"], node_name) for row in names
        }

    def ask(self, trip: RoundTrip) -> None:
        """See `Buffer`. The statement's `read` raises RetrySoonError if another transaction has written one of the elements
        or names meanwhile, or a quoted source was retracted.
        """
        if self._evidence:
            self._ask(
                trip,
                _WRITE_FACTS,
                len(self._nodes) + len(self._edges) + len(self._names),
                sources=uuid_array({row["source_id"] for row in self._evidence}),
                names=json_text(self._names),
                evidence=json_text(self._evidence),
            )
            return
        if self._nodes:
            citations = json_text(self._citations)
            self._ask(trip, _WRITE_CONCLUSIONS, len(self._nodes), citations=citations)
        if self._edges:
            self._ask(trip, _WRITE_LINKS, len(self._edges))

    def _ask(
        self, trip: RoundTrip, statement: CompiledStatement, expected: int, **params: Any
    ) -> None:
        all_params = {
            **self.scope.sql_params,
            "nodes": json_text(self._nodes),
            "edges": json_text(self._edges),
            "expected": expected,
            STRICT: False,
            **params,
        }
        trip.ask(BoundQuery(statement, all_params, partial(_check_written, expected)))

    def clear(self) -> None:
        """See `Buffer`."""
        self._names, self._nodes, self._edges = [], [], []
        self._evidence, self._citations = [], []


def _check_written(expected: int, rows: Sequence[Any]) -> None:
    [result] = rows
    if result.is_retracted:
        raise RetrySoonError("a page was retracted while it was quoted")
    if result.written != expected:
        raise RetrySoonError(
            f"{expected - result.written} rows were written by another transaction meanwhile"
        )


def element_buffer(session: Executor) -> ElementBuffer | None:
    """The buffer of the transaction, if it has one."""
    buffer = session.buffer if isinstance(session, Transaction) else None
    return buffer if isinstance(buffer, ElementBuffer) else None


@asynccontextmanager
async def buffering(session: InTransaction, scope: GraphScope) -> AsyncIterator[ElementBuffer]:
    """The buffer of the transaction. If it has none: a new one, which is written when the block ends."""
    if (buffer := element_buffer(session)) is not None:
        yield buffer
        return
    buffer = ElementBuffer(scope)
    yield buffer
    trip = RoundTrip()
    buffer.ask(trip)
    await trip.make(session)


async def write_element(
    session: InTransaction,
    statement: str,
    element: Mapping[str, Any],
    evidence: Rows,
    names: Rows = (),
) -> bool:
    """Run one of the statements above; returns False if the new element exists or one of its names is taken.

    Raises RetrySoonError if a quoted source was retracted meanwhile.
    """
    params = {
        **element,
        "properties": json_text(element["properties"]),
        "evidence": json_text(evidence),
        "names": json_text(names),
    }
    direct, pages = expand_values(
        statement, "page", list({result["source_id"] for result in evidence})
    )
    result = await direct.row(session, {**params, **pages})
    if result.is_retracted:
        raise RetrySoonError("a page was retracted while it was quoted")
    is_written: bool = result.is_written
    return is_written


async def reserve_names(session: InTransaction, names: Rows) -> bool:
    """Returns False if another node has one of the names; the caller must then roll back the others."""
    return await _RESERVE_NAMES.run(session, {"names": json_text(names)}) == len(names)


async def update_element(
    session: InTransaction, statement: str, element: Mapping[str, Any], evidence: Rows
) -> None:
    """Like `write_element` for a row that exists and is locked. Raises RuntimeError if the row does not exist."""
    if not await write_element(session, statement, element, evidence):
        raise RuntimeError(
            f"{element['id']} is locked, but agent {element['of_agent']} has no such row; "
            "find the code that deletes without the write lock"
        )


_MAX_ATTEMPTS: Final = 5
"""Between lookup and write, another transaction can insert the element or merge it away."""


class Element(Protocol):
    """A node or edge that exists or is about to be inserted."""

    @property
    def id(self) -> UUID: ...

    @property
    def column(self) -> str:
        """Name of the evidence column that refers to this element."""
        ...

    async def lock_row(self, session: InTransaction) -> "LockedElement[Self] | None":
        """Lock and load the existing row; None if there is none.

        Its id can differ from the derived one: a merge can have given an element this identity.
        """
        ...

    def compute_seal(self, change: PropertyChange) -> bytes:
        """The seal for this content."""
        ...

    def with_broken_seal(self, seal: bytes) -> Self:
        """A copy that keeps the given seal, which does not match the content."""
        ...

    async def insert(self, session: InTransaction, change: PropertyChange, evidence: Rows) -> bool:
        """Insert the row and its evidence; returns False if another transaction has inserted it."""
        ...

    async def update(self, session: InTransaction, change: PropertyChange, evidence: Rows) -> None:
        """Update the row, which exists and is locked, and insert the evidence."""
        ...


@dataclass(frozen=True)
class UpsertResult:
    """The outcome of writing a node or edge."""

    id: UUID
    created: bool
    change: PropertyChange

    @property
    def tool_answer(self) -> Json:
        """The tool's answer without the id.

        `superseded` lists values that were replaced, `kept` newer values that were retained instead of the given
        ones.
        """
        values_by_key = {"superseded": self.change.superseded, "kept": self.change.retained}
        return {
            "created": self.created,
            **{
                key: {name: _value_json(value) for name, value in values.items()}
                for key, values in values_by_key.items()
                if values
            },
        }


async def upsert_element(
    session: InTransaction,
    scope: GraphScope,
    element: Element,
    quotes: Sequence[VerifiedQuote],
    check: Callable[[Json], None],
    *,
    is_there: bool,
) -> UpsertResult:
    """Insert the element if it does not exist, and write its evidence. Writes nothing if `check` raises.

    Existing evidence is not changed. `is_there` is the result of an earlier lookup and may be out of date.
    """
    insert = partial(insert_element, session, scope, element, quotes, check)
    outcome = await insert_or_lock(session, element, insert, is_there=is_there)
    if isinstance(outcome, UpsertResult):
        return outcome
    # A separate statement, so that it sees what others committed before the lock was granted.
    claims_before = await list_claims(session, outcome.element.column, outcome.element.id)
    element = outcome.as_sealed(
        PropertyChange(outcome.properties, tuple(claim.evidence_id for claim in claims_before))
    )
    claims = _claims(element, quotes)
    change = apply_claims(outcome.properties, claims_before, claims)
    check(change.properties)
    await element.update(session, change, _evidence_rows(scope, element, quotes, claims))
    return UpsertResult(element.id, False, change)


async def insert_element(
    session: InTransaction,
    scope: GraphScope,
    element: Element,
    quotes: Sequence[VerifiedQuote],
    check: Callable[[Json], None],
) -> UpsertResult | None:
    """Insert the element and its evidence; None if another transaction has inserted it."""
    claims = _claims(element, quotes)
    change = apply_claims({}, (), claims)
    check(change.properties)
    is_inserted = await element.insert(
        session, change, _evidence_rows(scope, element, quotes, claims)
    )
    return UpsertResult(element.id, True, change) if is_inserted else None


T = TypeVar("T", bound=Element)
M = TypeVar("M")


@dataclass(frozen=True)
class LockedElement(Generic[T]):
    """An existing element whose row is locked."""

    element: T
    properties: Json
    seal: bytes | None

    def as_sealed(self, content: PropertyChange) -> T:
        """The element; it keeps its stored seal if that does not match `content`.

        A new seal would hide a change made outside Vigil.
        """
        if self.seal is None or self.seal == self.element.compute_seal(content):
            return self.element
        return self.element.with_broken_seal(self.seal)


async def insert_or_lock(
    session: InTransaction, element: T, insert: Callable[[], Awaitable[M | None]], *, is_there: bool
) -> M | LockedElement[T]:
    """Return the result of `insert`, or the locked element if it exists. `insert` returns None if the element exists.

    Raises RetrySoonError if the element is inserted and deleted by others in turns.
    """
    for _ in range(_MAX_ATTEMPTS):
        if is_there and (locked := await element.lock_row(session)):
            return locked
        if (inserted := await insert()) is not None:
            return inserted
        is_there = True
    raise RetrySoonError(f"{element.id} was inserted and deleted by others while it was written")


def _claims(element: Element, quotes: Sequence[VerifiedQuote]) -> list[Claim]:
    return [quote.claim(element.id) for quote in quotes]


def _value_json(previous: PreviousValue) -> Json:
    return {
        "held": previous.value,
        "asOf": None if previous.as_of is None else format_utc(previous.as_of),
    }


def _evidence_rows(
    scope: GraphScope, element: Element, quotes: Sequence[VerifiedQuote], claims: Sequence[Claim]
) -> Rows:
    """One row per evidence id."""
    by_id = {claim.evidence_id: quote for claim, quote in zip(claims, quotes, strict=True)}
    return [
        _evidence_row(scope, element, evidence_id, quote) for evidence_id, quote in by_id.items()
    ]


def _evidence_row(
    scope: GraphScope, element: Element, evidence_id: UUID, quote: VerifiedQuote
) -> dict[str, Any]:
    sealed: dict[str, Any] = {
        "agent_id": scope.agent_id,
        "source_id": quote.page.id,
        "first_byte": quote.span.start_byte,
        "end_byte": quote.span.end_byte,
        "quote_sha256": quote.quote_sha256,
        "claims": quote.claims,
        "valid_from": quote.valid_from,
        "valid_to": quote.valid_to,
        "as_of": quote.as_of,
        "learned_at": quote.learned_at,
    }
    return {
        **sealed,
        "id": evidence_id,
        element.column: element.id,
        "step_id": scope.step_id,
        "seal": integrity.evidence_seal(evidence_id=evidence_id, element_id=element.id, **sealed),
    }
