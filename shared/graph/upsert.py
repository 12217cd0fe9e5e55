"""Upserts: write evidence of a node or edge and, in the same transaction, the properties that follow from it."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from shared.database.statements import (
    STRICT,
    Batch,
    BoundQuery,
    CompiledStatement,
    Executor,
    expand_values,
    json_text,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.enums import Entailment
from shared.errors import RetrySoonError
from shared.graph.grounding.values import RULES
from shared.graph.projection import EDGES, NODES, ElementKind, load_claims
from shared.graph.prompt_format import format_utc, truncate_text
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, PreviousValue, PropertyChange, apply_claims
from shared.graph.provenance.evidence import VerifiedQuote
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.tools import Json

Rows = Sequence[Mapping[str, Any]]

_IS_RETRACTED: Final = "exists (select from retracted)"
_NOT_RETRACTED: Final = f"not {_IS_RETRACTED}"


WRITTEN_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    table: columns.split()
    for table, columns in {
        "graph_names": "type key reversed_key sorted_words_key name node_id step_id",
        "graph_nodes": "id type name properties rules seal unsupported_since iteration_id step_id",
        "graph_edges": "id type source_id target_id properties seal unsupported_since iteration_id step_id",
        "evidence": "id node_id edge_id source_id first_byte end_byte quote_sha256 claims valid_from valid_to"
        " as_of learned_at rules speaker seal step_id",
    }.items()
}
"""By table, besides `agent_id`. The database fills in the other columns."""


PROOF_COLUMNS: Final = (
    *(
        "conclusion_id",
        "number",
        "agent_id",
        "sentence",
        "stated",
        "kind",
        "element_id",
        "type",
        "name",
    ),
    *("property", "value", "source_id", "first_byte", "end_byte"),
)


def _insert_sql(table: str, parameter: str, condition: str, order: str = "") -> str:
    """Insert the JSON rows of a parameter, which belong to the agent of the scope.

    The id of an element is derived from its unique columns, so two unique keys conflict at once. "On conflict do update"
    checks only one of them and fails on the other when two workers insert concurrently. "Do nothing" checks both.
    """
    columns = WRITTEN_COLUMNS[table]
    values = ", ".join(f"row.{column}" for column in columns)
    return (
        f"insert into {table} (agent_id, {', '.join(columns)}) select {OWNED_AGENT_ID_SQL}, {values}"
        f" from jsonb_populate_recordset(cast(null as {table}), cast(:{parameter} as jsonb)) as row"
        f" where {condition} {order} on conflict do nothing"
    )


def _refuse_commit_sql(condition: str) -> str:
    return f"case when :strict and ({condition}) then forbid_commit() end as is_undone"


# The same order in every transaction prevents deadlocks.
_IN_ORDER: Final = 'order by row.type collate "C", row.key collate "C"'
_WRITTEN_SQL: Final = (
    "(select count(*) from taken) + (select count(*) from nodes) + (select count(*) from edges)"
)
_WRITE_FACTS: Final = CompiledStatement(
    "with retracted as (select 1 from sources where id = any(cast(:sources as uuid[])) and retracted_at is not null),"
    f" taken as ({_insert_sql('graph_names', 'names', _NOT_RETRACTED, _IN_ORDER)} returning key),"
    f" nodes as ({_insert_sql('graph_nodes', 'nodes', _NOT_RETRACTED)} returning id),"
    f" edges as ({_insert_sql('graph_edges', 'edges', _NOT_RETRACTED)} returning id),"
    f" inserted_evidence as ({_insert_sql('evidence', 'evidence', _NOT_RETRACTED)}),"
    f" result as (select {_WRITTEN_SQL} as written, {_IS_RETRACTED} as is_retracted)"
    f" select *, {_refuse_commit_sql('written <> :expected or is_retracted')} from result"
)
_RESULT_SQL: Final = (
    " result as (select count(*) as written, false as is_retracted from written)"
    f" select *, {_refuse_commit_sql('written <> :expected')} from result"
)
# Of their own: the services that write facts may not write citations, and not all that write conclusions may write edges.
# PostgreSQL demands the right even of what writes nothing.
_WRITE_CONCLUSIONS: Final = CompiledStatement(
    f"with written as ({_insert_sql('graph_nodes', 'nodes', 'true')} returning id),"
    " cited as (insert into citations (conclusion_id, cited_id)"
    "   select conclusion_id, cited_id from jsonb_to_recordset(cast(:citations as jsonb)) as row"
    "   (conclusion_id uuid, cited_id uuid) on conflict do nothing),"
    f" proven as (insert into conclusion_proofs ({', '.join(PROOF_COLUMNS)})"
    f"   select {', '.join(PROOF_COLUMNS)}"
    "   from jsonb_populate_recordset(cast(null as conclusion_proofs), cast(:proofs as jsonb)) as row"
    # Where another writer was first, nothing of this conclusion is committed.
    "   on conflict do nothing),"
    # That an element with a refused value is cited is noted, and the conclusion may be doubted: see `propagate_refusals`.
    " noted as (update entailment_verdicts set due_at = clock_timestamp()"
    f"  where agent_id = {OWNED_AGENT_ID_SQL} and verdict <> '{Entailment.SUPPORTED}' and due_at is null"
    "   and exists (select from evidence where evidence.id = evidence_id"
    f"     and coalesce(node_id, edge_id) = any(cast(:cited_elements as uuid[])))), {_RESULT_SQL}"
)
_WRITE_LINKS: Final = CompiledStatement(
    f"with written as ({_insert_sql('graph_edges', 'edges', 'true')} returning id), {_RESULT_SQL}"
)
_UPDATE_SQL: Final = {
    kind: (
        # `expand_values` fills in the ids of the quoted sources.
        "with retracted as (select 1 from sources where id in ({values}) and retracted_at is not null),"
        f" element as (update {kind.table}"
        # The new evidence quotes a source that is not retracted.
        "   set unsupported_since = null, updated_at = clock_timestamp(),"
        "     properties = cast(:properties as jsonb), seal = :seal"
        f"   where {IS_OWNED_SQL} and id = :id and {_NOT_RETRACTED} returning id),"
        f" inserted_evidence as ({_insert_sql('evidence', 'evidence', 'exists (select from element)')})"
        f" select exists (select from element) as is_written, {_IS_RETRACTED} as is_retracted"
    )
    for kind in (NODES, EDGES)
}
_LOCK: Final = {
    kind: CompiledStatement(
        f"select id, properties, seal from {kind.table} where agent_id = {OWNED_AGENT_ID_SQL} and "
        + " and ".join(f"{column} = :{column}" for column in kind.identity)
        # "No key update": writers of edges or evidence share-lock the key and need not wait.
        + f" for no key update of {kind.table}"
    )
    for kind in (NODES, EDGES)
}

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
    written_names: dict[tuple[str, str], tuple[UUID, str, str]] = field(default_factory=dict)
    """By type and key, the node, its name, and the name as it was written."""
    written_nodes: dict[UUID, Mapping[str, Any]] = field(default_factory=dict)
    written_edges: set[EdgeKey] = field(default_factory=set)
    known_nodes: dict[UUID, tuple[str, str]] = field(default_factory=dict)
    """Type and name of nodes that were looked up by their names."""
    _names: list[Mapping[str, Any]] = field(default_factory=list)
    _nodes: list[Mapping[str, Any]] = field(default_factory=list)
    _edges: list[Mapping[str, Any]] = field(default_factory=list)
    _evidence: list[Mapping[str, Any]] = field(default_factory=list)
    _citations: list[Mapping[str, Any]] = field(default_factory=list)
    _cited_elements: set[UUID] = field(default_factory=set)
    _proofs: list[Mapping[str, Any]] = field(default_factory=list)

    def add_node(self, node: Mapping[str, Any], evidence: Rows = ()) -> None:
        self._nodes.append(node)
        self._evidence += evidence
        self.written_nodes[node["id"]] = node

    def add_conclusion(
        self,
        node: Mapping[str, Any],
        cited: Iterable[UUID],
        elements: Iterable[UUID],
        proof: Iterable[Mapping[str, Any]],
    ) -> None:
        """`cited` are the ids that its texts cite, `elements` the current ids of these, `proof` the rows of its proof."""
        self.add_node(node)
        self._proofs += [
            {"conclusion_id": node["id"], "number": number, "agent_id": self.scope.agent_id, **row}
            for number, row in enumerate(proof, 1)
        ]
        self._cited_elements.update(elements)
        self._citations += [
            {"conclusion_id": node["id"], "cited_id": cited_id} for cited_id in cited
        ]

    def add_edge(self, edge: Mapping[str, Any], evidence: Rows = ()) -> None:
        self._edges.append(edge)
        self._evidence += evidence
        self.written_edges.add((edge["type"], edge["source_id"], edge["target_id"]))

    def add_names(self, names: Rows, node_name: str) -> None:
        """Reserves names for the node of that name."""
        self._names += names
        self.written_names |= {
            (row["type"], row["key"]): (row["node_id"], node_name, row["name"]) for row in names
        }

    def add_to(self, batch: Batch) -> None:
        """See `Buffer`. The statement's `read` raises RetrySoonError if another transaction has written one of the elements
        or names meanwhile, or a quoted source was retracted.
        """
        if self._evidence or self._names:
            self._add_write(
                batch,
                _WRITE_FACTS,
                len(self._nodes) + len(self._edges) + len(self._names),
                sources=uuid_array({row["source_id"] for row in self._evidence}),
                names=json_text(self._names),
                evidence=json_text(self._evidence),
            )
            return
        if self._nodes:
            self._add_write(
                batch,
                _WRITE_CONCLUSIONS,
                len(self._nodes),
                citations=json_text(self._citations),
                cited_elements=uuid_array(self._cited_elements),
                proofs=json_text(self._proofs),
            )
        if self._edges:
            self._add_write(batch, _WRITE_LINKS, len(self._edges))

    def _add_write(
        self, batch: Batch, statement: CompiledStatement, expected: int, **params: Any
    ) -> None:
        all_params = {
            **self.scope.sql_params,
            "nodes": json_text(self._nodes),
            "edges": json_text(self._edges),
            "expected": expected,
            STRICT: False,
            **params,
        }
        batch.add(BoundQuery(statement, all_params, partial(_check_written, expected)))

    def clear(self) -> None:
        """See `Buffer`."""
        self._names, self._nodes, self._edges = [], [], []
        self._evidence, self._citations, self._cited_elements = [], [], set()
        self._proofs = []


def _check_written(expected: int, rows: Sequence[Any]) -> None:
    [result] = rows
    _refuse_retracted(result.is_retracted)
    if result.written != expected:
        raise RetrySoonError(
            f"{expected - result.written} rows were written by another transaction in the meantime"
        )


def _refuse_retracted(is_retracted: bool) -> None:
    if is_retracted:
        raise RetrySoonError("a page was retracted while it was being quoted")


def element_buffer(transaction: Executor) -> ElementBuffer | None:
    """The buffer of the transaction, if it has one."""
    buffer = transaction.buffer if isinstance(transaction, Transaction) else None
    return buffer if isinstance(buffer, ElementBuffer) else None


@asynccontextmanager
async def buffering(transaction: Transaction, scope: GraphScope) -> AsyncIterator[ElementBuffer]:
    """The buffer of the transaction. If it has none: a new one, which is written when the block ends.

    Raises RetrySoonError like `ElementBuffer.add_to`; the caller must then roll back.
    """
    if (buffer := element_buffer(transaction)) is not None:
        yield buffer
        return
    buffer = ElementBuffer(scope)
    yield buffer
    batch = Batch()
    buffer.add_to(batch)
    await batch.execute(transaction)


@dataclass(frozen=True)
class Element:
    """A node or edge that exists or is about to be inserted."""

    kind: ElementKind
    scope: GraphScope
    id: UUID
    identity: Mapping[str, Any]
    """The columns of `kind.identity`."""
    names: Rows = ()
    """Rows of the names to reserve together with a node."""
    rules: Json | None = None
    """By which a conclusion was accepted."""
    broken_seal: bytes | None = None
    """A stored seal that does not match the content, and is kept: a new one would hide a change made outside Vigil."""

    def columns(self, change: PropertyChange) -> dict[str, Any]:
        rules = {} if self.rules is None else {"rules": self.rules}
        return {
            **self.scope.sql_params,
            "id": self.id,
            **self.identity,
            "properties": change.properties,
            **rules,
            "seal": self.compute_seal(change),
            "iteration_id": self.scope.iteration_id,
            "step_id": self.scope.step_id,
        }

    def compute_seal(self, change: PropertyChange) -> bytes:
        """The seal for this content."""
        identity = [self.identity[column] for column in self.kind.identity]
        return self.broken_seal or integrity.element_seal(
            self.kind.name,
            element_id=self.id,
            agent_id=self.scope.agent_id,
            identity=identity,
            properties=change.properties,
            evidence=change.evidence,
            rules=self.rules,
        )

    async def lock_row(self, transaction: Transaction) -> "LockedElement | None":
        """Lock and load the existing row; None if there is none.

        Its id can differ from the derived one: a merge can have given an element this identity.
        """
        row = await _LOCK[self.kind].row(transaction, {**self.scope.sql_params, **self.identity})
        if row is None:
            return None
        return LockedElement(replace(self, id=row.id), row.properties, row.seal)

    async def insert(
        self, transaction: Transaction, change: PropertyChange, evidence: Rows
    ) -> None:
        """Insert the row, its names and its evidence.

        They wait in the transaction's buffer, if it has one. The buffer is sent by `_WRITE_FACTS` before the transaction's
        next statement (`Transaction.flush`), at the latest with the commit (`UnitOfWork.commit`).
        """
        async with buffering(transaction, self.scope) as buffer:
            add = buffer.add_node if self.kind is NODES else buffer.add_edge
            add(self.columns(change), evidence)
            if self.names:
                buffer.add_names(self.names, self.identity["name"])

    async def update(
        self, transaction: Transaction, change: PropertyChange, evidence: Rows
    ) -> None:
        """Update the row, which exists and is locked, and insert its names and the evidence.

        Raises RetrySoonError if a quoted source was retracted meanwhile, RuntimeError if the row does not exist.
        """
        if self.names:
            async with buffering(transaction, self.scope) as buffer:
                buffer.add_names(self.names, self.identity["name"])
        sources = list({row["source_id"] for row in evidence})
        statement, pages = expand_values(_UPDATE_SQL[self.kind], "page", sources)
        params = {
            **self.columns(change),
            "properties": json_text(change.properties),
            "evidence": json_text(evidence),
        }
        result = await statement.row(transaction, {**params, **pages})
        _refuse_retracted(result.is_retracted)
        if not result.is_written:
            raise RuntimeError(
                f"{self.id} is locked, but agent {self.scope.agent_id} has no such row; "
                "find the code that deletes without the write lock"
            )


@dataclass(frozen=True)
class LockedElement:
    """An existing element whose row is locked."""

    element: Element
    properties: Json
    seal: bytes | None

    def as_sealed(self, content: PropertyChange) -> Element:
        """The element; it keeps its stored seal if that does not match `content`."""
        if self.seal is None or self.seal == self.element.compute_seal(content):
            return self.element
        return replace(self.element, broken_seal=self.seal)


@dataclass(frozen=True)
class UpsertResult:
    """The outcome of writing a node or edge."""

    id: UUID
    created: bool
    change: PropertyChange
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why values were not written, by property."""
    completed: Json = field(default_factory=dict)

    @property
    def tool_answer(self) -> Json:
        """The tool's answer without the id.

        `superseded` lists values that were replaced, `kept` values that hold instead of the given ones, `upcoming` the days
        on which given values begin to hold, `leftOut` values that were not written, with the reason, `completed` values as
        they were completed.
        """
        values_by_key = {"superseded": self.change.superseded, "kept": self.change.retained}
        left_out = {**dict.fromkeys(self.change.refused, _REFUSED), **self.left_out}
        return {
            "created": self.created,
            **{
                key: {name: _value_json(value) for name, value in values.items()}
                for key, values in values_by_key.items()
                if values
            },
            **({"upcoming": _days(self.change.upcoming)} if self.change.upcoming else {}),
            **({"leftOut": left_out} if left_out else {}),
            **({"completed": self.completed} if self.completed else {}),
        }


async def upsert_element(
    transaction: Transaction,
    element: Element,
    quotes: Sequence[VerifiedQuote],
    check: Callable[[Json], None],
    *,
    is_there: bool,
    review: Callable[[Json, Sequence[Claim]], None] | None = None,
) -> UpsertResult:
    """Insert the element if it does not exist, and write its evidence. Writes nothing if `check` raises, or `review`, which
    gets the properties and claims of an element that exists.

    What is new is written later; see `Element.insert`. Existing evidence is not changed. `is_there` is
    the result of an earlier lookup; if another transaction has inserted the element since, or reserved one of its names,
    RetrySoonError is raised when the buffer is written.
    """
    locked = await element.lock_row(transaction) if is_there else None
    properties: Json = {}
    claims_before: Sequence[Claim] = ()
    if locked is not None:
        # A separate statement, so that it sees what others committed before the lock was granted.
        claims_by_id = await load_claims(transaction, element.kind, [locked.element.id])
        claims_before, properties = claims_by_id[locked.element.id].claims, locked.properties
        evidence_before = tuple(claim.evidence_id for claim in claims_before)
        element = locked.as_sealed(PropertyChange(properties, evidence_before))
        if review is not None:
            review(properties, claims_before)
    claims = [quote.claim(element.id) for quote in quotes]
    retracted = {claim.evidence_id for claim in claims_before if claim.is_retracted}
    _refuse_retracted(any(claim.evidence_id in retracted for claim in claims))
    change = apply_claims(properties, claims_before, claims, max(quote.now for quote in quotes))
    check(change.properties)
    # One row per evidence id.
    quotes_by_id = {claim.evidence_id: quote for claim, quote in zip(claims, quotes, strict=True)}
    evidence = [_evidence_row(element, *item) for item in quotes_by_id.items()]
    if locked is None:
        await element.insert(transaction, change, evidence)
    else:
        await element.update(transaction, change, evidence)
    return UpsertResult(element.id, locked is None, change)


_REFUSED: Final = "a reader found that the cited sentences do not say it"
_HELD_CHARS: Final = 80
"""Of a text that was held before, in the answer to the model."""


def _value_json(previous: PreviousValue) -> Json:
    return {
        "held": truncate_text(previous.value, _HELD_CHARS)
        if isinstance(previous.value, str)
        else previous.value,
        "asOf": None if previous.as_of is None else format_utc(previous.as_of),
    }


def _days(starts: Mapping[str, datetime]) -> Json:
    return {name: f"{start:%Y-%m-%d}" for name, start in starts.items()}


def _evidence_row(element: Element, evidence_id: UUID, quote: VerifiedQuote) -> dict[str, Any]:
    sealed: dict[str, Any] = {
        "agent_id": element.scope.agent_id,
        "source_id": quote.page.id,
        "first_byte": quote.span.start_byte,
        "end_byte": quote.span.end_byte,
        "quote_sha256": quote.quote_sha256,
        "claims": quote.claims,
        "valid_from": quote.valid_from,
        "valid_to": quote.valid_to,
        "as_of": quote.as_of,
        "learned_at": quote.learned_at,
        "rules": RULES,
        "speaker": quote.speaker,
    }
    return {
        **sealed,
        "id": evidence_id,
        element.kind.evidence_column: element.id,
        "step_id": element.scope.step_id,
        "seal": integrity.evidence_seal(evidence_id=evidence_id, element_id=element.id, **sealed),
    }
