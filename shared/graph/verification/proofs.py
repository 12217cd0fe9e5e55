"""Proofs of conclusions, what has become of them, and what was learned since.

Conclusions of earlier releases have no stored proof. It is found by the same rules in what was known when they were
concluded, and is marked as such.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal
from uuid import UUID

from shared.database.statements import CompiledStatement, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.enums import Entailment
from shared.graph import labels
from shared.graph.conclusions import rules
from shared.graph.conclusions.basis import basis_query
from shared.graph.conclusions.citations import Kind
from shared.graph.conclusions.proofs import ProofRow, find_proof
from shared.graph.entity_resolution import redirects
from shared.graph.labels import Label
from shared.graph.provenance.claims import UNKNOWN_DATE
from shared.graph.provenance.contradiction import contradict
from shared.graph.provenance.integrity import NodeRow, is_equal
from shared.graph.provenance.page_reading import Span
from shared.graph.provenance.verdicts import IS_BY_MODEL_SQL, READ_VALUES_SQL
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.verification import loader
from shared.graph.verification.checks import Fault, FaultKind, check_proof, cited_by, is_text
from shared.schemas.provenance import VerdictResponse
from shared.tools import Json
from shared.tools.readings import EXISTS

_FAILED: Final = (Entailment.CONTRADICTED, Entailment.NOT_STATED)
_ROWS: Final = CompiledStatement(f"""
select conclusion_id, number, sentence, stated, kind, element_id, type, name, property, value, source_id, first_byte,
  end_byte
from conclusion_proofs where conclusion_id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
order by conclusion_id, number
""")


def _evidence_sql(condition: str) -> str:
    return f"""
select evidence.id, coalesce(node_id, edge_id) as element_id, source_id, first_byte, end_byte, claims,
  greatest(as_of, valid_from) as since, learned_at, speaker, evidence.step_id, url, retracted_at is not null as is_retracted,
  (select jsonb_object_agg(name, to_jsonb(read)) from ({READ_VALUES_SQL}) as read where {IS_BY_MODEL_SQL}) as verdicts
from evidence join sources on sources.id = source_id
where {condition} and (evidence.agent_id = {OWNED_AGENT_ID_SQL}) is true
order by learned_at, evidence.id
"""


_OF_ELEMENTS: Final = [
    CompiledStatement(_evidence_sql(f"{column} = any(cast(:ids as uuid[]))"))
    for column in ("node_id", "edge_id")
]
# What a merge or a split has moved to another node or edge.
_AT_SPANS: Final = CompiledStatement(
    _evidence_sql(
        "(source_id, first_byte, end_byte) in (select source_id, first_byte, end_byte"
        " from jsonb_to_recordset(cast(:spans as jsonb)) as span (source_id uuid, first_byte int, end_byte int))"
    )
)
_PAGES: Final = CompiledStatement(f"""
select id, url, title, published, fetched_at, retracted_at, retraction_reason,
  sha256(convert_to(text, 'UTF8')) = sha256 as is_intact
from sources where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
""")


@dataclass(frozen=True)
class ProvenRow:
    """A row of a proof with the evidence that it is now."""

    number: int
    row: ProofRow
    quote: str
    text_bytes: int
    """Length of the page's text; 0: it does not exist."""
    page: Any
    evidence: Any | None
    """None: nothing says it of any node or edge now."""
    current_id: UUID
    """The present id of the node or edge: another one after a merge."""

    @property
    def key(self) -> tuple[UUID, str | None]:
        return self.current_id, self.row.property

    @property
    def speaker(self) -> str | None:
        """Who says it, if the sentence attributes it to someone and the graph still has it."""
        return self.evidence.speaker if self.evidence else None

    @property
    def is_moved(self) -> bool:
        return self.evidence is not None and self.evidence.element_id != self.current_id

    def says_the_same(self, evidence: Any) -> bool:
        if self.row.property is None:
            return self.row.kind is Kind.EDGE
        return self.row.property in evidence.claims and is_equal(
            evidence.claims[self.row.property], self.row.value
        )


@dataclass(frozen=True)
class Proof:
    """What a conclusion stated when it was concluded, with the sentences that said it."""

    concluded_at: datetime
    concluded_in: UUID | None
    """The step that concluded."""
    is_stored: bool
    """Whether it was stored with the conclusion."""
    rows: Sequence[ProvenRow]
    about: Mapping[UUID, Sequence[Any]]
    """All evidence of the nodes and edges that it is about, by their present ids."""
    labels: Mapping[UUID, Label]
    """Of the nodes and edges that have taken the place of others."""

    @cached_property
    def agreeing(self) -> Mapping[int, Sequence[Any]]:
        """By number of the row, the evidence that said the same when it was concluded; without retracted pages."""
        return {
            each.number: [
                other
                for other in self.about.get(each.current_id, ())
                if other.learned_at <= self.concluded_at
                and not other.is_retracted
                and each.says_the_same(other)
            ]
            for each in self.rows
        }

    @cached_property
    def quoted(self) -> frozenset[tuple[str, str | None]]:
        """Addresses of the pages that said it, without retracted ones, each with the speakers whom they quote for it."""
        own = {
            (each.page.url, each.speaker)
            for each in self.rows
            if each.page and not each.page.retracted_at
        }
        agreeing = {(one.url, one.speaker) for each in self.agreeing.values() for one in each}
        return frozenset(own | agreeing)

    def verdict(self, row: ProvenRow) -> VerdictResponse | None:
        """What a model had found in the evidence when it was concluded."""
        found = _reading(row.evidence, row.row.property)
        return VerdictResponse.model_validate(found) if self._is_of_then(found) else None

    def _is_of_then(self, found: Json | None) -> bool:
        if found is None:
            return False
        is_own = self.concluded_in is not None and UUID(found["step_id"]) == self.concluded_in
        return is_own or datetime.fromisoformat(found["created_at"]) <= self.concluded_at

    def change(self, row: ProvenRow) -> str | None:
        """Says in a sentence what has changed for the row since; None if nothing has."""
        page, found = row.page, row.evidence
        if page is not None and page.retracted_at is not None:
            reason = f": {page.retraction_reason}" if page.retraction_reason else ""
            return f"Its page was retracted on {page.retracted_at:%Y-%m-%d}{reason}"
        if found is None:
            return "Nothing in the graph says this now"
        if row.is_moved:
            return f"It is about {self._name_of(found.element_id)} now"
        read = _reading(found, row.row.property)
        if read is not None and read["verdict"] in _FAILED and not self._is_of_then(read):
            return f"Read since: {read['verdict'].replace('_', ' ')} ({read['reason']})"
        if row.current_id != row.row.element_id:
            return f"{row.row.name} was merged into {self._name_of(row.current_id)}"
        return None

    def _name_of(self, element_id: UUID) -> str:
        label = self.labels.get(element_id)
        return label.name if label else "another node"

    def later(self) -> Iterator[tuple[Literal["confirms", "contradicts", "newer"], ProvenRow, Any]]:
        """Yields what was learned since about what it states: each sentence once for each claim."""
        by_key: defaultdict[tuple[UUID, str | None], list[ProvenRow]] = defaultdict(list)
        for each in self.rows:
            by_key[each.key].append(each)
        for key, rows in by_key.items():
            spans = {span_of(each.row) for each in rows}
            for found in self.about.get(key[0], ()):
                if (
                    found.learned_at <= self.concluded_at
                    or found.is_retracted
                    or (
                        (read := _reading(found, key[1])) is not None and read["verdict"] in _FAILED
                    )
                    or span_of(found) in spans
                ):
                    continue
                same = next((each for each in rows if each.says_the_same(found)), None)
                if same is not None:
                    yield "confirms", same, found
                elif (
                    key[1] is not None
                    and key[1] in found.claims
                    and contradict(key[1], rows[-1].row.value, found.claims[key[1]])
                ):
                    yield "newer" if _is_newer(found, rows) else "contradicts", rows[-1], found


def _reading(evidence: Any | None, property_name: str | None) -> Json | None:
    """What a model found of this value of the evidence, or of the existence of its node or edge; None if it was not read."""
    return evidence and (evidence.verdicts or {}).get(property_name or EXISTS)


def span_of(row: Any) -> tuple[UUID, int, int]:
    """Returns the page and the place of the sentence of a row of a proof, or of evidence."""
    return row.source_id, row.first_byte, row.end_byte


def _is_newer(found: Any, rows: Iterable[ProvenRow]) -> bool:
    """Whether it is dated after all that is proven of the same property, or begins after it. An unknown date is after
    nothing.
    """
    dates = [each.evidence.since if each.evidence else UNKNOWN_DATE for each in rows]
    return UNKNOWN_DATE not in dates and bool(found.since > max(dates))


async def load_proofs(
    transaction: Transaction, scope: GraphScope, conclusions: Sequence[NodeRow]
) -> dict[UUID, Proof]:
    """The proof of each conclusion, by its id."""
    if not conclusions:
        return {}
    rows = await _load_rows(transaction, scope, conclusions)
    everything = [row for of_one in rows.values() for _, row in of_one]
    element_ids = {row.element_id for row in everything}
    redirected = await redirects.current_ids(transaction, scope, element_ids)
    current = {each: redirected.get(each, each) for each in element_ids}
    about: defaultdict[UUID, list[Any]] = defaultdict(list)
    if everything:
        params = {**scope.sql_params, "ids": uuid_array(set(current.values()))}
        for statement in _OF_ELEMENTS:
            for found in await statement.rows(transaction, params):
                about[found.element_id].append(found)
    evidence = await _match(transaction, scope, everything, current, about)
    pages = {
        page.id: page
        for page in await _PAGES.rows(
            transaction,
            {**scope.sql_params, "ids": uuid_array({row.source_id for row in everything})},
        )
    }
    spans = await loader.load_spans(
        transaction, [(row.source_id, Span(row.first_byte, row.end_byte)) for row in everything]
    )
    quotes = {id(row): span for row, span in zip(everything, spans, strict=True)}
    step_of = await _load_steps(transaction, scope, conclusions)
    moved_to = {each.element_id for each in evidence.values() if each} | set(current.values())
    new_labels = await labels.load_labels(transaction, scope, moved_to - element_ids)
    return {
        each.id: Proof(
            each.created_at,
            step_of.get(each.id),
            rules.proof_sha256(each.rules) is not None,
            [
                ProvenRow(
                    number,
                    row,
                    quotes[id(row)][0].decode(errors="replace"),
                    quotes[id(row)][1],
                    pages.get(row.source_id),
                    evidence[id(row)],
                    current[row.element_id],
                )
                for number, row in rows.get(each.id, ())
            ],
            about,
            new_labels,
        )
        for each in conclusions
    }


_STEPS: Final = CompiledStatement(
    f"select id, step_id from graph_nodes where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}"
)


async def _load_steps(
    transaction: Transaction, scope: GraphScope, conclusions: Sequence[NodeRow]
) -> dict[UUID, UUID | None]:
    params = {**scope.sql_params, "ids": uuid_array(each.id for each in conclusions)}
    return dict(await _STEPS.tuples(transaction, params))


async def load_rows(
    transaction: Transaction, scope: GraphScope, conclusion_ids: Collection[UUID]
) -> dict[UUID, list[tuple[int, ProofRow]]]:
    """The stored rows with their numbers, by conclusion."""
    rows: defaultdict[UUID, list[tuple[int, ProofRow]]] = defaultdict(list)
    params = {**scope.sql_params, "ids": uuid_array(conclusion_ids)}
    for columns in await _ROWS.tuples(transaction, params):
        conclusion_id, number, sentence, stated, kind, *others = columns
        rows[conclusion_id].append((number, ProofRow(sentence, stated, Kind(kind), *others)))
    return rows


async def _load_rows(
    transaction: Transaction, scope: GraphScope, conclusions: Sequence[NodeRow]
) -> dict[UUID, list[tuple[int, ProofRow]]]:
    """Loads the rows of the proofs; of conclusions without a stored proof, finds them now."""
    rows = await load_rows(transaction, scope, [each.id for each in conclusions])
    earlier = [each for each in conclusions if rules.proof_sha256(each.rules) is None]
    cited = {each.id: cited_by(each).ids() for each in earlier}
    if any(cited.values()):
        basis = await basis_query(scope, {one for ids in cited.values() for one in ids}).execute(
            transaction
        )
        for each in earlier:
            elements = basis.provable(cited[each.id], each.created_at)
            proof = find_proof(each.name, each.properties, elements)
            rows[each.id] = list(enumerate(proof, 1))
    return rows


async def _match(
    transaction: Transaction,
    scope: GraphScope,
    rows: Sequence[ProofRow],
    current: Mapping[UUID, UUID],
    about: Mapping[UUID, Sequence[Any]],
) -> dict[int, Any]:
    """Finds the evidence that each row is now, of its own node or edge or of another; by the identity of the row."""
    found = {id(row): _find(row, about.get(current[row.element_id], ())) for row in rows}
    if missing := [row for row in rows if found[id(row)] is None]:
        spans = [
            {"source_id": row.source_id, "first_byte": row.first_byte, "end_byte": row.end_byte}
            for row in missing
        ]
        elsewhere = await _AT_SPANS.rows(
            transaction, {**scope.sql_params, "spans": json_text(spans)}
        )
        found |= {id(row): _find(row, elsewhere) for row in missing}
    return found


def _find(row: ProofRow, evidence: Iterable[Any]) -> Any | None:
    """The evidence that quotes the row's sentence for the same claim."""
    return next(
        (
            each
            for each in evidence
            if span_of(each) == span_of(row)
            and (
                row.property is None
                or (row.property in each.claims and is_equal(each.claims[row.property], row.value))
            )
        ),
        None,
    )


async def check_rows(
    transaction: Transaction,
    conclusions: Sequence[NodeRow],
    stored: Mapping[UUID, Sequence[tuple[int, ProofRow]]],
) -> dict[UUID, list[Fault]]:
    """By conclusion, what is wrong with its proof: it was changed, or a sentence is not in its page.

    The pages are checked as such.
    """
    faults: defaultdict[UUID, list[Fault]] = defaultdict(list)
    for each in conclusions:
        rows = [row for _, row in stored.get(each.id, ())]
        faults[each.id] += check_proof(each, rows)
    everything = [(key, row) for key, of_one in stored.items() for _, row in of_one]
    spans = await loader.load_spans(
        transaction, [(row.source_id, Span(row.first_byte, row.end_byte)) for _, row in everything]
    )
    for (key, row), (quote, text_bytes) in zip(everything, spans, strict=True):
        if row.end_byte > text_bytes or not is_text(quote):
            message = f"the sentence for “{row.stated}” is not in its page"
            faults[key].append(Fault(FaultKind.PROOF, message))
    return faults
