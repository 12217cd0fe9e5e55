"""Verification of a whole graph page by page, and of one conclusion down to its sources.

Each page is one transaction with the same cost wherever it starts, so a client needs constant memory for a graph of
any size.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from sqlalchemy import exists, func, select

from shared.database import pagination
from shared.database.pagination import InvalidCursorError, fetch_slice
from shared.database.tables import GraphNode
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, Entailment
from shared.graph.conclusions.citations import CitedElements, Kind
from shared.graph.conclusions.readings import load_verdicts as load_sentence_verdicts
from shared.graph.conclusions.readings import summarize
from shared.graph.conclusions.rules import proof_sha256
from shared.graph.conclusions.sentences import sentences_of
from shared.graph.provenance.integrity import EdgeRow, NodeRow, Row
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.graph.verification import checks, journal, loader, proofs
from shared.graph.verification.checks import (
    CheckedClaims,
    Fault,
    FaultKind,
    Faults,
    Link,
    QuotedEvidence,
    cited_by,
    is_conclusion,
    link_of,
)
from shared.graph.verification.loader import RowLoader, StoredSource
from shared.graph.verification.proofs import Proof
from shared.schemas.base import ReadingResponse
from shared.schemas.provenance import (
    CheckedCounts,
    DoubtResponse,
    ElementDoubt,
    ElementFault,
    SentenceReading,
    VerdictResponse,
    VerificationPage,
)
from shared.tools.readings import EXISTS

if TYPE_CHECKING:
    from shared.database.signing import JournalSigner

PAGE_ROWS: Final = 500
MAX_PAGE_ROWS: Final = 16_000
PART_ROWS: Final = 500
"""Of a part of a page: see `find_parts`."""

_CURSOR: Final = "verification"
_STAGES: Final = ("journal", "tables", "sources", "nodes", "edges")
_STAGES_OF_HISTORY: Final = 2
_CONCLUSIONS_PER_STATEMENT: Final = 50
R = TypeVar("R", bound=Row)


async def check_page(
    transaction: Transaction,
    scope: GraphScope,
    *,
    cursor: str | None = None,
    rows: int = PAGE_ROWS,
    since: bytes | None = None,
    signer: "JournalSigner | None" = None,
) -> VerificationPage:
    """Check one page: `rows` entries of the journal, a table that it covers, or `rows` rows with all their evidence. The
    first page, or the one after `cursor`.

    `since` is the hash of an entry that is known from elsewhere: the journal must have it, and only the journal, and rows
    against it, are checked; give it for each page. With a `signer`, signatures are checked. Run it in a repeatable read
    transaction: otherwise concurrent writes look like faults. Raises InvalidCursorError.
    """
    stage, after = _parse_cursor(cursor)
    stages = len(_STAGES) if since is None else _STAGES_OF_HISTORY
    page = CheckedRows()
    key: str | None = None
    match _STAGES[stage]:
        case "journal":
            if after is None and since is not None:
                await _require_root(transaction, scope, page, since)
            key = await _check_journal(transaction, scope, page, int(after or 0), rows, signer)
        case "tables":
            key = await _check_table(transaction, scope, page, int(after or 0))
        case "sources":
            page.sources, key = await _load_page(transaction, scope, loader.SOURCES, after, rows)
        case "nodes":
            page.nodes, key = await _load_page(transaction, scope, loader.NODES, after, rows)
        case "edges":
            page.edges, key = await _load_page(transaction, scope, loader.EDGES, after, rows)
    await _load_evidence(transaction, scope, page)
    await _check(transaction, scope, page)
    return VerificationPage(
        checked=page.counts,
        breaks=page.faults,
        doubts=page.element_doubts,
        root=page.root,
        signatures_checked=signer is not None,
        next=_next_cursor(stage, key, stages),
    )


async def find_parts(
    transaction: Transaction,
    scope: GraphScope,
    *,
    cursor: str | None,
    rows: int,
    part_rows: int = PART_ROWS,
) -> list[str | None]:
    """The cursors of the parts of a page, which can be checked at the same time, each by `check_page` with `part_rows`.

    A part has that many rows, or is a table that is compared with the journal; the last one leads to the next page. The
    page of a small graph is one part. Raises InvalidCursorError.
    """
    if rows <= part_rows:
        return [cursor]
    stage, after = _parse_cursor(cursor)
    keys: list[str] = []
    match _STAGES[stage]:
        case "tables":
            if await _has_more_nodes(transaction, scope, part_rows):
                keys = [str(index) for index in range(int(after or 0) + 1, len(journal.TABLES))]
        case "sources":
            keys = await _list_keys(transaction, scope, loader.SOURCES, after, rows, part_rows)
        case "nodes":
            keys = await _list_keys(transaction, scope, loader.NODES, after, rows, part_rows)
        case "edges":
            keys = await _list_keys(transaction, scope, loader.EDGES, after, rows, part_rows)
    return [cursor, *(pagination.encode_cursor(_CURSOR, (stage, key)) for key in keys)]


def join_parts(parts: Sequence[VerificationPage]) -> VerificationPage:
    """The page that has these parts, which are in its order."""
    counts = Counter[str]()
    for part in parts:
        counts.update(part.checked.model_dump())
    return parts[-1].model_copy(
        update={
            "checked": CheckedCounts(**counts),
            "breaks": [fault for part in parts for fault in part.breaks],
            "doubts": [doubt for part in parts for doubt in part.doubts],
        }
    )


async def _has_more_nodes(transaction: Transaction, scope: GraphScope, nodes: int) -> bool:
    following = select(GraphNode.id).where(GraphNode.agent_id == scope.agent_id).offset(nodes)
    return bool(await transaction.scalar(select(exists(following))))


async def _list_keys(
    transaction: Transaction,
    scope: GraphScope,
    rows: RowLoader[R],
    after: str | None,
    limit: int,
    part_rows: int,
) -> list[str]:
    """The keys after which the parts of a page begin, without the first."""
    place = func.row_number().over(order_by=rows.order.columns)
    keys = rows.select_keys(scope).add_columns(place.label("place")).order_by(*rows.order.columns)
    if after is not None:
        keys = keys.where(rows.order.after(after))
    numbered = keys.limit(limit).subquery()
    ends = await transaction.execute(
        select(numbered)
        .where(numbered.c.place % part_rows == 0, numbered.c.place < limit)
        .order_by(numbered.c.place)
    )
    return [pagination.encode_cursor(rows.order.name, (*key,)) for *key, _ in ends]


async def _require_root(
    transaction: Transaction, scope: GraphScope, page: "CheckedRows", root: bytes
) -> None:
    if await journal.find_entry(transaction, scope, root) is None:
        fault = Fault(
            FaultKind.JOURNAL,
            f"no entry has the root {root.hex()}: it is that of another graph, or the history was replaced",
        )
        page.faults += _faults_of(scope.agent_id, Link.JOURNAL, "journal", iter([fault]))


async def _check_journal(
    transaction: Transaction,
    scope: GraphScope,
    page: "CheckedRows",
    after: int,
    limit: int,
    signer: "JournalSigner | None",
) -> str | None:
    """Check a page of the journal; returns where it continues."""
    entries = await journal.load_entries(transaction, scope, after, limit)
    faults = [fault for entry in entries for fault in entry.faults()]
    if signer is not None:
        faults += journal.check_signatures(scope, entries, signer)
    is_last = len(entries) < limit
    if is_last:
        missing = await journal.check_ledger(transaction, scope)
        page.faults += _faults_of(scope.agent_id, Link.LEDGER, "ledger", iter(missing))
        faults += await journal.check_head(transaction, scope)
        root = await journal.newest_root(transaction, scope)
        page.root = None if root is None else root.hex()
    page.entries = len(entries)
    page.signed = sum(entry.signature is not None for entry in entries)
    page.faults += _faults_of(scope.agent_id, Link.JOURNAL, "journal", iter(faults))
    return None if is_last else str(entries[-1].seq)


async def _check_table(
    transaction: Transaction, scope: GraphScope, page: "CheckedRows", index: int
) -> str | None:
    page.rows, faults = await journal.check_table(transaction, scope, journal.TABLES[index])
    page.faults += faults
    return str(index + 1) if index + 1 < len(journal.TABLES) else None


async def _load_page(
    transaction: Transaction, scope: GraphScope, rows: RowLoader[R], after: str | None, limit: int
) -> tuple[dict[UUID, R], str | None]:
    """The rows of a page by id, and where the stage continues."""
    page_slice = await fetch_slice(transaction, rows.select(scope), rows.order, limit, after)
    return {columns[0]: rows.row(columns) for columns in page_slice.rows}, page_slice.next


def _parse_cursor(cursor: str | None) -> tuple[int, str | None]:
    """The stage and the key within it. Raises InvalidCursorError."""
    if cursor is None:
        return 0, None
    stage, after = pagination.decode_cursor(_CURSOR, (int, str), cursor)
    if not isinstance(stage, int) or not 0 <= stage < len(_STAGES):
        raise InvalidCursorError(
            f"{cursor[:40]!r} is not a cursor of this list: omit it to start from the beginning"
        )
    return stage, str(after) or None


def _next_cursor(stage: int, key: str | None, stages: int) -> str | None:
    if key is not None:
        return pagination.encode_cursor(_CURSOR, (stage, key))
    return None if stage + 1 == stages else pagination.encode_cursor(_CURSOR, (stage + 1, ""))


@dataclass
class CheckedRows:
    """Rows with their evidence and faults: a page of them, or everything that a conclusion rests on."""

    nodes: dict[UUID, NodeRow] = field(default_factory=dict)
    edges: dict[UUID, EdgeRow] = field(default_factory=dict)
    cited: dict[UUID, list[UUID]] = field(default_factory=dict)
    """By conclusion the cited elements that exist."""
    evidence: dict[UUID, list[QuotedEvidence]] = field(default_factory=dict)
    """By node or edge id."""
    verdicts: dict[UUID, dict[str, VerdictResponse]] = field(default_factory=dict)
    """By evidence and the name of the value, what a model found in it."""
    sentences: dict[UUID, list[SentenceReading]] = field(default_factory=dict)
    """By conclusion, what a model found in its sentences."""
    sources: dict[UUID, StoredSource] = field(default_factory=dict)
    names: Mapping[UUID, Sequence[str]] = field(default_factory=dict)
    """The names by which pages may call each node, and each end of an edge."""
    claims: CheckedClaims = field(default_factory=CheckedClaims)
    entries: int = 0
    """Entries of the journal."""
    signed: int = 0
    """Those with a signature."""
    rows: int = 0
    """Rows that were compared with the journal."""
    root: str | None = None
    """The newest root of the journal, if its end was checked."""
    values: CheckedClaims = field(default_factory=CheckedClaims)
    """Of conclusions."""
    faults: list[ElementFault] = field(default_factory=list)
    doubts: Mapping[UUID, list[DoubtResponse]] = field(default_factory=dict)
    """By conclusion."""
    proofs: Mapping[UUID, Proof] = field(default_factory=dict)
    """By conclusion, of a chain."""

    @property
    def counts(self) -> CheckedCounts:
        found = Counter[str](
            each.verdict
            for of_values in self.verdicts.values()
            for name, each in of_values.items()
            if name != EXISTS or len(of_values) == 1
        )
        readings = [self.reading_of(row) for row in self.conclusions]
        read = [each for each in readings if each is not None]
        return CheckedCounts(
            sources=len(self.sources),
            evidence=sum(map(len, self.evidence.values())),
            claims=sum(
                max(len(quoted.row.claims), 1)
                for quotes in self.evidence.values()
                for quoted in quotes
            ),
            nodes=len(self.nodes),
            edges=len(self.edges),
            quotes_found=self._quotes_found,
            claims_supported=self.claims.supported,
            claims_completed=self.claims.completed,
            claims_unverified=self.claims.unverified,
            claims_read=self.claims.read,
            claims_stated=self.claims.stated,
            claims_unchecked=self.claims.unchecked,
            evidence_found_supported=found[Entailment.SUPPORTED],
            evidence_found_contradicted=found[Entailment.CONTRADICTED],
            evidence_found_not_stated=found[Entailment.NOT_STATED],
            entries=self.entries,
            entries_signed=self.signed,
            rows=self.rows,
            values_supported=self.values.supported,
            values_unverified=self.values.unverified,
            conclusions_unchecked=self.values.unchecked,
            sentences=sum(len(sentences_of(row.name, row.properties)) for row in self.conclusions),
            sentences_supported=sum(each.supported for each in read),
            sentences_plausible=sum(each.plausible for each in read),
            conclusions_unread=readings.count(None),
        )

    @property
    def _quotes_found(self) -> int:
        """Number of quotes that their pages contain, in pages whose texts are as fetched."""
        changed = {
            fault.id
            for fault in self.faults
            if fault.broken in (FaultKind.SPAN, FaultKind.QUOTE, FaultKind.SOURCE, FaultKind.TEXT)
        }
        return sum(
            not {quoted.row.id, quoted.row.source_id} & changed
            for quotes in self.evidence.values()
            for quoted in quotes
        )

    def reading_of(self, row: NodeRow) -> ReadingResponse | None:
        """How much of a conclusion was read."""
        return summarize(row.name, row.properties, self.sentences.get(row.id, ()))

    @property
    def conclusions(self) -> list[NodeRow]:
        return [row for row in self.nodes.values() if is_conclusion(row)]

    @property
    def element_doubts(self) -> list[ElementDoubt]:
        return [
            ElementDoubt(**doubt.model_dump(), link=link_of(row.type), id=row.id, name=row.name)
            for row in self.conclusions
            for doubt in self.doubts.get(row.id, ())
        ]

    def rests_on(self) -> dict[UUID, list[UUID]]:
        """For each id the ids that it directly rests on."""
        dependencies = {quoted: list(cited) for quoted, cited in self.cited.items()}
        for element_id, evidence in self.evidence.items():
            dependencies[element_id] = [quoted.row.id for quoted in evidence]
            dependencies |= {quoted.row.id: [quoted.row.source_id] for quoted in evidence}
        for edge in self.edges.values():
            dependencies[edge.id] = [*dependencies.get(edge.id, ()), edge.source_id, edge.target_id]
        for key, proof in self.proofs.items():
            pages = {each.row.source_id for each in proof.rows}
            dependencies[key] = [*dependencies.get(key, ()), *pages]
        return dependencies


async def walk_chain(transaction: Transaction, scope: GraphScope, root: UUID) -> CheckedRows:
    """Load and check the chain of the conclusion `root`; empty if the agent has no such conclusion.

    The rows are in the order of their discovery. Takes a few statements for each level down to the pages, whatever the
    size of the graph. Run it in a repeatable read transaction: otherwise concurrent writes look like faults.
    """
    chain = CheckedRows()
    await _follow(transaction, scope, chain, root)
    await _load_evidence(transaction, scope, chain)
    chain.proofs = await proofs.load_proofs(transaction, scope, chain.conclusions)
    source_ids = {quoted.row.source_id for quotes in chain.evidence.values() for quoted in quotes}
    # What a split has moved to another node is quoted by no element of the chain.
    source_ids |= {each.row.source_id for proof in chain.proofs.values() for each in proof.rows}
    chain.sources = await loader.SOURCES.load(transaction, scope, source_ids)
    await _check(transaction, scope, chain)
    await _compare_with_journal(transaction, scope, chain)
    return chain


async def _compare_with_journal(
    transaction: Transaction, scope: GraphScope, chain: CheckedRows
) -> None:
    links = {row.id: (link_of(row.type), row.name) for row in chain.nodes.values()}
    links |= {row.id: (Link.EDGE, row.type) for row in chain.edges.values()}
    links |= {row.id: (Link.SOURCE, row.url) for row in chain.sources.values()}
    links |= {
        quoted.row.id: (Link.EVIDENCE, "")
        for quotes in chain.evidence.values()
        for quoted in quotes
    }
    for row_id, fault in (await journal.check_chain(transaction, scope, links)).items():
        chain.faults += _faults_of(row_id, *links[row_id], iter([fault]))
    chain.rows = len(links)


async def _follow(
    transaction: Transaction, scope: GraphScope, chain: CheckedRows, root: UUID
) -> None:
    """Load the nodes and edges of the chain."""
    nodes, edges = [root], list[UUID]()
    while nodes or edges:
        new_nodes = await loader.NODES.load(transaction, scope, nodes)
        new_edges = await loader.EDGES.load(transaction, scope, edges)
        # In the order of the citations, which stays the same.
        chain.nodes |= {each: new_nodes[each] for each in nodes if each in new_nodes}
        chain.edges |= {each: new_edges[each] for each in edges if each in new_edges}
        ends = [
            end
            for each in edges
            if (edge := new_edges.get(each)) is not None
            for end in (edge.source_id, edge.target_id)
        ]
        cited = {
            each: cited_by(row)
            for each in nodes
            if (row := new_nodes.get(each)) is not None and is_conclusion(row)
        }
        cited_ids = {cited_id for texts in cited.values() for cited_id in texts.ids()}
        current = await loader.load_current_ids(transaction, scope, cited_ids)
        nodes, edges = ends, []
        for conclusion, texts in cited.items():
            chain.cited[conclusion] = list(
                dict.fromkeys(current[cited_id] for cited_id in texts.ids())
            )
            nodes += [current[cited_id] for cited_id in texts.ids(Kind.NODE)]
            edges += [current[cited_id] for cited_id in texts.ids(Kind.EDGE)]
        nodes = [each for each in dict.fromkeys(nodes) if each not in chain.nodes]
        edges = [each for each in dict.fromkeys(edges) if each not in chain.edges]


async def _load_evidence(transaction: Transaction, scope: GraphScope, rows: CheckedRows) -> None:
    rows.evidence |= await loader.load_evidence(transaction, scope, Kind.NODE, rows.nodes)
    rows.evidence |= await loader.load_evidence(transaction, scope, Kind.EDGE, rows.edges)
    ids = [quoted.row.id for quotes in rows.evidence.values() for quoted in quotes]
    rows.verdicts = await loader.load_verdicts(transaction, scope, ids)


async def _check(transaction: Transaction, scope: GraphScope, rows: CheckedRows) -> None:
    """Find the faults and the doubts."""
    conclusions = rows.conclusions
    existing = await loader.load_cited(transaction, scope, conclusions)
    ends = {end for edge in rows.edges.values() for end in (edge.source_id, edge.target_id)}
    types = {row.id: row.type for row in rows.nodes.values()}
    types |= await loader.load_node_types(transaction, scope, ends - types.keys())
    facts = [row.id for row in rows.nodes.values() if rows.evidence.get(row.id)]
    rows.names = await loader.load_names(transaction, scope, {*facts, *ends})
    if conclusions:
        rows.sentences = await load_sentence_verdicts(
            transaction, scope, [(row.id, row.name, row.properties) for row in conclusions]
        )
        rows.doubts = await doubts.list_doubts(transaction, [row.id for row in conclusions])
    rows.faults += _faults(scope.agent_id, rows, existing, types)
    if conclusions:
        rows.faults += await _check_values(transaction, scope, rows)
        rows.faults += await _check_positions(transaction, scope, rows)


async def _check_values(
    transaction: Transaction, scope: GraphScope, rows: CheckedRows
) -> list[ElementFault]:
    """The faults of advice that cites too little, and of proofs."""
    faults: list[ElementFault] = []
    checked = [row for row in rows.conclusions if proof_sha256(row.rules) is not None]
    rows.values.unchecked += len(rows.conclusions) - len(checked)
    for batch in _batches(checked):
        proven = await proofs.load_rows(transaction, scope, [row.id for row in batch])
        wrong = await proofs.check_rows(transaction, batch, proven)
        for row in batch:
            said = {proof_row.stated for _, proof_row in proven.get(row.id, ())}
            found = checks.check_values(row, said, rows.values)
            faults += _faults_of(row.id, link_of(row.type), row.name, found)
            faults += _faults_of(row.id, Link.PROOF, row.name, iter(wrong.get(row.id, ())))
    return faults


async def _check_positions(
    transaction: Transaction, scope: GraphScope, rows: CheckedRows
) -> list[ElementFault]:
    """The faults of the state of advice."""
    advice = {row.id: row for row in rows.conclusions if row.type == ADVICE_TYPE}
    if not advice:
        return []
    positions = await loader.load_positions(transaction, scope, advice)
    is_open = [each for each in positions.values() if each.ended_at is None]
    return [
        fault
        for position in positions.values()
        if (row := advice.get(position.advice_id)) is not None
        for fault in _faults_of(
            row.id, Link.POSITION, row.name, checks.check_position(row, position, is_open)
        )
    ]


def _batches(conclusions: Sequence[NodeRow]) -> Iterator[Sequence[NodeRow]]:
    """Few at a time: what they cite comes with all its values."""
    for first in range(0, len(conclusions), _CONCLUSIONS_PER_STATEMENT):
        yield conclusions[first : first + _CONCLUSIONS_PER_STATEMENT]


def _faults(
    agent_id: UUID, rows: CheckedRows, existing: CitedElements, types: Mapping[UUID, str]
) -> Iterator[ElementFault]:
    """The faults of all rows. `existing` are the cited elements that exist, `types` the types of the ends of edges."""
    for source in rows.sources.values():
        faults = checks.check_source(agent_id, source, source.text_sha256)
        yield from _faults_of(source.id, Link.SOURCE, source.url, faults)
    verdicts = {
        (evidence_id, name): each.verdict
        for evidence_id, of_evidence in rows.verdicts.items()
        for name, each in of_evidence.items()
    }
    for element_id, quotes in rows.evidence.items():
        node = rows.nodes.get(element_id)
        name = node.name if node else rows.edges[element_id].type
        for quoted in quotes:
            faults = checks.check_evidence(agent_id, quoted)
            yield from _faults_of(quoted.row.id, Link.EVIDENCE, f"of {name}", faults)
        about = [element_id] if node else ends_of(rows.edges[element_id])
        names = [rows.names.get(node_id, ["?"]) for node_id in about]
        for evidence_id, fault in checks.check_grounding(names, quotes, rows.claims, verdicts):
            yield from _faults_of(evidence_id, Link.EVIDENCE, f"of {name}", iter([fault]))
    for node in rows.nodes.values():
        faults = checks.check_node(agent_id, node, rows.evidence.get(node.id, ()))
        yield from _faults_of(node.id, link_of(node.type), node.name, faults)
    for node in rows.conclusions:
        faults = checks.check_conclusion(node, existing, is_doubted=node.id in rows.doubts)
        yield from _faults_of(node.id, link_of(node.type), node.name, faults)
    for edge in rows.edges.values():
        ends = {end: types[end] for end in (edge.source_id, edge.target_id) if end in types}
        faults = checks.check_edge(agent_id, edge, rows.evidence.get(edge.id, ()), ends)
        yield from _faults_of(edge.id, Link.EDGE, edge.type, faults)


def ends_of(edge: EdgeRow) -> list[UUID]:
    return [edge.source_id, edge.target_id]


def _faults_of(row_id: UUID, link: Link, name: str, faults: Faults) -> Iterator[ElementFault]:
    for fault in faults:
        yield ElementFault(
            id=row_id, link=link, name=name, broken=fault.kind, message=fault.description
        )
