"""Verification of a graph's journal: its entries are a chain, and they account for every row of the graph.

What the entries have added, less what they have removed, is what the tables must hold. So a row that was changed, added or
deleted by anything but Vigil is found, whatever its column. See `GraphJournal`, and decision 0042.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Uuid

from shared.database.transaction import Transaction
from shared.graph.scope import GraphScope
from shared.graph.verification.checks import Fault, FaultKind, Link
from shared.schemas.provenance import ElementFault

if TYPE_CHECKING:
    from shared.database.signing import JournalSigner

OWN_WRITERS: Final = "vigil-"
"""Prefix of the application names of Vigil's own connections."""
MAX_FAULTS: Final = 1000
"""Rows of one table that are reported."""


@dataclass(frozen=True)
class CoveredTable:
    """A table whose rows the journal covers. `kind` is the first byte of their leaves."""

    kind: int
    table: str
    link: Link
    noun: str
    id_sql: str
    """The id to report."""
    name_sql: str
    """The name to report."""
    is_own_sql: str = "agent_id = :agent"
    depends_on: str | None = None
    """The column whose element the row says something about: it is checked with the chain of a conclusion."""


_OF_CONCLUSION: Final = (
    "exists (select from graph_nodes where id = conclusion_id and agent_id = :agent)"
)
_OF_RETRACTION: Final = (
    "exists (select from retractions where id = retraction_id and agent_id = :agent)"
)
TABLES: Final = (
    CoveredTable(1, "graph_nodes", Link.NODE, "node", "id", "name", depends_on="id"),
    CoveredTable(2, "graph_edges", Link.EDGE, "edge", "id", "type", depends_on="id"),
    CoveredTable(3, "graph_node_types", Link.TYPE, "type of nodes", "agent_id", "name"),
    CoveredTable(4, "graph_edge_types", Link.TYPE, "type of edges", "agent_id", "name"),
    CoveredTable(5, "graph_names", Link.NAME, "name", "node_id", "name", depends_on="node_id"),
    CoveredTable(6, "sources", Link.SOURCE, "page", "id", "url", depends_on="id"),
    CoveredTable(7, "evidence", Link.EVIDENCE, "quote", "id", "claims::text", depends_on="id"),
    CoveredTable(8, "graph_merges", Link.MERGE, "merge", "id", "reason", depends_on="kept_id"),
    CoveredTable(
        9,
        "graph_redirects",
        Link.MERGE,
        "redirect",
        "merged_id",
        "kept_id::text",
        depends_on="kept_id",
    ),
    CoveredTable(10, "retractions", Link.RETRACTION, "retraction", "id", "url"),
    CoveredTable(
        11,
        "retracted_sources",
        Link.RETRACTION,
        "page of a retraction",
        "source_id",
        "retraction_id::text",
        _OF_RETRACTION,
        depends_on="source_id",
    ),
    CoveredTable(
        12,
        "citations",
        Link.CITATION,
        "citation",
        "conclusion_id",
        "cited_id::text",
        _OF_CONCLUSION,
        depends_on="conclusion_id",
    ),
    CoveredTable(
        13,
        "doubts",
        Link.DOUBT,
        "doubt",
        "conclusion_id",
        "element_id::text",
        _OF_CONCLUSION,
        depends_on="conclusion_id",
    ),
    CoveredTable(
        14,
        "entailment_verdicts",
        Link.VERDICT,
        "verdict",
        "evidence_id",
        "verdict",
        depends_on="evidence_id",
    ),
    CoveredTable(
        18,
        "conclusion_verdicts",
        Link.VERDICT,
        "verdict",
        "conclusion_id",
        "sentence",
        depends_on="conclusion_id",
    ),
    CoveredTable(
        19,
        "conclusion_proofs",
        Link.PROOF,
        "proof",
        "conclusion_id",
        "name",
        depends_on="conclusion_id",
    ),
    CoveredTable(
        15,
        "pruned_iterations",
        Link.LEDGER,
        "record of deleted iterations",
        "agent_id",
        "numbers::text",
    ),
    CoveredTable(16, "call_days", Link.LEDGER, "day of deleted calls", "agent_id", "day::text"),
    CoveredTable(
        17,
        "positions",
        Link.POSITION,
        "state of advice",
        "advice_id",
        "coalesce(reason, '')",
        depends_on="advice_id",
    ),
)
_ENTRIES: Final = text("""
select seq, hash, written_at, writer, signature, root is not null as has_leaves,
  coalesce(lag(seq) over (order by seq), :after) as previous_seq,
  hash = sha256(
    coalesce(lag(hash) over (order by seq), (
      select hash from graph_journal where agent_id = :agent and seq = :after), '')
    || int8send(seq) || int8send((extract(epoch from written_at) * 1000000)::bigint)
    || coalesce(uuid_send(step_id), '') || array_send(changed) || array_send(deleted) || array_send(types)
    || coalesce(root || int4send(octet_length(writer)) || convert_to(writer, 'UTF8'), '') || coalesce(cited_root, '')
  ) as is_hash_right,
  case when root is null
    then added is null and removed is null and writer is null and cited_root is null
    else coalesce(root = sha256(array_send(added) || array_send(removed)), false) end as is_root_right,
  coalesce(seq > (
    select min(seq) from graph_journal where agent_id = :agent and signature is not null
  ), false) as is_signing_begun
from graph_journal where agent_id = :agent and seq > :after order by seq limit :limit
""")
_IS_HEAD_RIGHT: Final = text("""
select (select row(seq, hash) from graph_head where agent_id = :agent) is not distinct from
  (select row(seq, hash) from graph_journal where agent_id = :agent order by seq desc limit 1)
""")
_LEAVES_SQL: Final = """
select unnest(added) as leaf, 1 as sign, seq from graph_journal where agent_id = :agent and root is not null
union all select unnest(removed), -1, seq from graph_journal where agent_id = :agent and root is not null
"""


@dataclass(frozen=True)
class Entry:
    """One entry of a journal, with what is right about it."""

    seq: int
    hash: bytes
    written_at: datetime
    writer: str | None
    signature: bytes | None
    has_leaves: bool
    previous_seq: int
    is_hash_right: bool
    is_root_right: bool
    is_signing_begun: bool
    """Whether an earlier entry is signed."""

    def faults(self) -> list[Fault]:
        if self.seq != self.previous_seq + 1:
            return [_fault(f"the entries before entry {self.seq} are missing")]
        if not (self.is_hash_right and self.is_root_right):
            return [
                _fault(
                    f"entry {self.seq} was changed, or the one before it: its hash does not match"
                )
            ]
        if self.has_leaves and not (self.writer or "").startswith(OWN_WRITERS):
            return [
                _fault(
                    f"the graph was changed by {self.writer or 'an unnamed connection'!r}, which is not Vigil,"
                    f" at {self.written_at:%Y-%m-%d %H:%M:%S} UTC (entry {self.seq})",
                )
            ]
        return []


async def load_entries(
    transaction: Transaction, scope: GraphScope, after: int, limit: int
) -> Sequence[Entry]:
    """At most `limit` entries after the position `after`, in order."""
    rows = await transaction.execute(
        _ENTRIES, {"agent": scope.agent_id, "after": after, "limit": limit}
    )
    return [Entry(**row) for row in rows.mappings()]


async def check_head(transaction: Transaction, scope: GraphScope) -> list[Fault]:
    """Whether the newest entry is the one that the graph's head names."""
    is_right = await transaction.scalar(_IS_HEAD_RIGHT, {"agent": scope.agent_id})
    return [] if is_right else [_fault("the newest entries are missing")]


def check_signatures(
    scope: GraphScope, entries: Sequence[Entry], signer: "JournalSigner"
) -> list[Fault]:
    """From the first one that is signed, each entry must be."""
    faults = []
    for entry in entries:
        if entry.signature is None:
            if entry.is_signing_begun:
                faults.append(
                    _fault(f"entry {entry.seq} is not signed: it was written without the key")
                )
        elif not signer.is_signed(entry.signature, scope.agent_id, entry.seq, entry.hash):
            faults.append(_fault(f"the signature of entry {entry.seq} is not by the present key"))
    return faults


def _fault(description: str) -> Fault:
    return Fault(FaultKind.JOURNAL, description)


async def newest_root(transaction: Transaction, scope: GraphScope) -> bytes | None:
    """The hash of the newest entry; None if the graph was never written."""
    root: bytes | None = await transaction.scalar(
        text("select hash from graph_head where agent_id = :agent"), {"agent": scope.agent_id}
    )
    return root


async def find_entry(transaction: Transaction, scope: GraphScope, entry_hash: bytes) -> int | None:
    """The position of the entry with this hash."""
    seq: int | None = await transaction.scalar(
        text("select seq from graph_journal where agent_id = :agent and hash = :hash"),
        {"agent": scope.agent_id, "hash": entry_hash},
    )
    return seq


async def check_table(
    transaction: Transaction, scope: GraphScope, covered: CoveredTable
) -> tuple[int, list[ElementFault]]:
    """Compare all rows of a table with the journal: the number of rows, and the faults, at most MAX_FAULTS.

    It is one statement, of about 10 µs a row.
    """
    rows = await transaction.execute(
        _statement(_TABLE_SQL, covered),
        {"agent": scope.agent_id, "kind": covered.kind, "limit": MAX_FAULTS},
    )
    count, faults = 0, list[ElementFault]()
    for row in rows:
        if row.rows is not None:
            count = row.rows
        elif row.seq is None:
            faults.append(_changed(covered, row.id, row.name))
        else:
            faults.append(_missing(scope, covered, row))
    return count, faults


_TABLE_SQL: Final = f"""
with state as (
  select leaf, sum(sign) as sign, max(seq) as seq from ({_LEAVES_SQL}) as each
  where get_byte(leaf, 0) = :kind group by leaf having sum(sign) <> 0
), present as (
  select graph_leaf({{table}}) as leaf, {{id_sql}} as id, {{name_sql}} as name from {{table}} where {{is_own_sql}}
), different as (
  select id, name, state.sign, state.seq from present full join state using (leaf)
  where present.leaf is null or state.leaf is null or state.sign < 0 limit :limit
)
select null::bigint as rows, id, name, sign, different.seq, written_at
from different left join graph_journal on agent_id = :agent and graph_journal.seq = different.seq
union all
select count(*), null, null, null, null, null from present
"""
_CHAIN_SQL: Final = f"""
with present as (
{{present}}
), known as (
  select leaf from ({_LEAVES_SQL}) as each where leaf in (select leaf from present) group by leaf having sum(sign) > 0
)
select kind, id, name from present where leaf not in (select leaf from known)
"""
_PRESENT_SQL: Final = (
    "select {kind} as kind, graph_leaf({table}) as leaf, {id_sql} as id, {name_sql} as name from {table}"
    " where {depends_on} = any(:ids)"
)
_BY_KIND: Final = {covered.kind: covered for covered in TABLES}


def _statement(sql: str, covered: CoveredTable) -> Any:
    return text(sql.format(**vars(covered)))


_CHAIN: Final = text(
    _CHAIN_SQL.format(
        present=" union all ".join(
            _PRESENT_SQL.format(**vars(covered)) for covered in TABLES if covered.depends_on
        )
    )
).bindparams(bindparam("ids", type_=ARRAY(Uuid())))


async def check_chain(
    transaction: Transaction, scope: GraphScope, ids: Iterable[UUID]
) -> Mapping[UUID, Fault]:
    """Compare the rows of these nodes, edges, sources and evidence, and of what is said about them, with the journal.

    Returns the faults by id. What was deleted is found by `check_table` only.
    """
    rows = await transaction.execute(_CHAIN, {"agent": scope.agent_id, "ids": list(ids)})
    return {
        row.id: Fault(FaultKind.CHANGED, _described(_BY_KIND[row.kind], row.name)) for row in rows
    }


def _described(covered: CoveredTable, name: str) -> str:
    of = "" if covered.depends_on == "id" else f"a {covered.noun} of it, {name!r}, "
    return f"{of or 'it '}was added or changed by something that is not Vigil"


def _changed(covered: CoveredTable, row_id: UUID, name: str) -> ElementFault:
    return ElementFault(
        id=row_id,
        link=covered.link,
        name=name,
        broken=FaultKind.CHANGED,
        message=f"this {covered.noun} was added or changed by something that is not Vigil",
    )


def _missing(scope: GraphScope, covered: CoveredTable, row: Any) -> ElementFault:
    """A row that Vigil has written at this position, and that is no longer there; or that was changed before Vigil has
    written it again.
    """
    what = (
        "was deleted, or changed, by something that is not Vigil"
        if row.sign > 0
        else "had been changed by something that is not Vigil when Vigil changed it"
    )
    article = "an" if covered.noun[0] in "aeiou" else "a"
    when = f"{row.written_at:%Y-%m-%d %H:%M:%S} UTC"
    return ElementFault(
        id=scope.agent_id,
        link=covered.link,
        name=f"entry {row.seq}",
        broken=FaultKind.CHANGED,
        message=f"{article} {covered.noun} of entry {row.seq}, written at {when}, {what}",
    )


_MOST: Final = 5
"""Calls that are named."""
_NUMBERS: Final = text("""
with known as (
  select coalesce((select numbers from pruned_iterations where agent_id = :agent), '{}') as deleted,
    coalesce((select transcripts from pruned_iterations where agent_id = :agent), '{}') as without_texts,
    (select iterations_started from agents where id = :agent) as started
), present as (
  select coalesce(range_agg(int4range(number, number, '[]')), '{}') as numbers,
    coalesce(range_agg(int4range(number, number, '[]')) filter (where transcripts_deleted_at is not null), '{}')
      as without_texts
  from iterations where agent_id = :agent
)
select
  cast(int4multirange(int4range(1, started + 1)) - present.numbers - deleted as text) as missing,
  cast(present.numbers * deleted as text) as restored,
  cast(present.without_texts - known.without_texts + (known.without_texts - present.without_texts) * present.numbers as text)
    as differently_marked
from known, present
""")
_EMPTIED: Final = text(f"""
select id from calls
where agent_id = :agent and answered_at is not null and answer is null
  and not exists (select from iterations where id = calls.iteration_id and transcripts_deleted_at is not null)
limit {_MOST}
""")
_COSTS: Final = text("""
select coalesce((select sum(spent_usd) from budget_days where scope = :agent), 0) as spent,
  coalesce((select sum(coalesce(cost_usd, 0) + assumed_usd) from calls where agent_id = :agent), 0)
  + coalesce((select sum(cost_usd + assumed_usd) from call_days where agent_id = :agent), 0) as recorded
""")
_NOTHING: Final = "{}"


async def check_ledger(transaction: Transaction, scope: GraphScope) -> list[Fault]:
    """Whether iterations, texts or calls are missing that Vigil has not deleted."""
    agent = {"agent": scope.agent_id}
    numbers = (await transaction.execute(_NUMBERS, agent)).one()
    faults = []
    if numbers.missing != _NOTHING:
        faults.append(
            f"the iterations {numbers.missing} were deleted by something that is not Vigil"
        )
    if numbers.restored != _NOTHING:
        faults.append(
            f"the iterations {numbers.restored} were added by something that is not Vigil"
        )
    if numbers.differently_marked != _NOTHING:
        faults.append(
            f"whether the iterations {numbers.differently_marked} have transcripts was changed by something that is not"
            " Vigil"
        )
    faults += [
        f"the answer of the call {call_id} was deleted by something that is not Vigil"
        for call_id in await transaction.scalars(_EMPTIED, agent)
    ]
    costs = (await transaction.execute(_COSTS, agent)).one()
    # The other way round it may be: an answer that came after its reservation was written off.
    if costs.recorded < costs.spent:
        faults.append(
            f"{costs.spent} USD were spent, but the calls cost {costs.recorded}:"
            " some were deleted, or changed, by something that is not Vigil"
        )
    return [Fault(FaultKind.LEDGER, fault) for fault in faults]
