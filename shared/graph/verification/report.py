"""Report of the verification of a conclusion: its proof as it was, what has become of it, and what is broken below it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.statements import CompiledStatement
from shared.database.transaction import Transaction
from shared.domains import DomainPreferences, site_of
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Entailment
from shared.graph.conclusions.citations import Kind
from shared.graph.provenance.beside import Column, beside_query
from shared.graph.provenance.claims import known_date
from shared.graph.provenance.integrity import NodeRow, Row, ThingRow, canonical_json
from shared.graph.provenance.origins import (
    ORIGIN_KEY,
    Publication,
    find_origins,
    join_speakers,
    said_by,
    value_origins,
)
from shared.graph.provenance.page_reading import Span
from shared.graph.scope import GraphScope
from shared.graph.verification import checks, loader
from shared.graph.verification.checks import (
    CheckedClaims,
    ClaimCheck,
    Link,
    QuotedEvidence,
    Standing,
    find_unproven,
    is_conclusion,
    link_of,
)
from shared.graph.verification.proofs import Proof, ProvenRow, span_of
from shared.graph.verification.verifier import CheckedRows, ends_of, walk_chain
from shared.schemas.provenance import (
    CheckedCounts,
    ConclusionLink,
    ElementLink,
    EvidenceLink,
    LaterLink,
    LinkFault,
    ProofLink,
    SinceResponse,
    SourceLink,
    VerificationResponse,
)

_AGENT: Final = CompiledStatement(f"""
select agents.id, barred_domains from agents join graph_nodes on graph_nodes.agent_id = agents.id
where graph_nodes.id = :conclusion and type in ('{ANALYSIS_TYPE}', '{ADVICE_TYPE}') and owner_id = :owner
""")
MAX_LATER: Final = 20
"""Later sentences that are listed. All are counted."""


async def verify_conclusion(
    transaction: Transaction, owner_id: UUID, conclusion_id: UUID
) -> VerificationResponse | None:
    """Verify a conclusion of the owner; None if there is none of that id.

    Run it in a repeatable read transaction.
    """
    agent = await _AGENT.row(transaction, {"conclusion": conclusion_id, "owner": owner_id})
    if agent is None:
        return None
    scope = GraphScope(owner_id, agent.id)
    chain = await walk_chain(transaction, scope, conclusion_id)
    checked = _checked_claims(chain, chain.nodes[conclusion_id].created_at)
    publications = _publications(chain)
    described = {
        key: await _describe(transaction, scope, proof, checked, publications)
        for key, proof in chain.proofs.items()
    }
    domains = DomainPreferences(barred=agent.barred_domains)
    return _ReportBuilder(chain, described).build(agent.id, conclusion_id, domains)


async def _describe(
    transaction: Transaction,
    scope: GraphScope,
    proof: Proof,
    checked: Mapping[tuple[UUID, str | None], ClaimCheck],
    publications: Mapping[str, Publication],
) -> tuple[list[ProofLink], SinceResponse]:
    """The proof for people and programs. `checked` is from `checks.check_claims`."""
    links = [_link(proof, each, checked, publications) for each in proof.rows]
    later = list(proof.later())
    shown = sorted(later, key=lambda each: each[2].learned_at, reverse=True)
    shown.sort(key=lambda each: each[0] != "contradicts")
    shown = shown[:MAX_LATER]
    spans = await loader.load_spans(
        transaction,
        [(each.source_id, Span(each.first_byte, each.end_byte)) for _, _, each in shown],
    )
    counts = {
        kind: len({span_of(found) for relation, _, found in later if relation == kind})
        for kind in ("confirms", "contradicts", "newer")
    }
    since = SinceResponse(
        **counts,
        beside=await _beside(transaction, scope, proof),
        latest=[
            LaterLink(
                relation=kind,
                number=row.number,
                evidence_id=found.id,
                source_id=found.source_id,
                url=found.url,
                value=found.claims.get(row.row.property),
                quote=quote.decode(errors="replace"),
                learned_at=found.learned_at,
            )
            for (kind, row, found), (quote, _) in zip(shown, spans, strict=True)
        ],
    )
    return links, since


async def _beside(transaction: Transaction, scope: GraphScope, proof: Proof) -> list[str]:
    """What stands now beside the values that are proven, each with the name of its node or edge."""
    columns: Mapping[Kind, Column] = {Kind.NODE: "node_id", Kind.EDGE: "edge_id"}
    lines: list[str] = []
    for kind, column in columns.items():
        stated: defaultdict[UUID, set[str]] = defaultdict(set)
        names: dict[UUID, str] = {}
        for each in proof.rows:
            if each.row.kind is kind and each.row.property is not None:
                stated[each.current_id].add(each.row.property)
                names[each.current_id] = each.row.name
        found = (
            await beside_query(scope, column, stated, stated).execute(transaction) if stated else {}
        )
        lines += [f"{names[element_id]}: {text}" for element_id, text in found.items()]
    return sorted(lines)


def _publications(chain: CheckedRows) -> Mapping[str, Publication]:
    """By address, of the pages of the chain."""
    return {
        row.url: Publication.from_json(row.url, (row.reading or {}).get(ORIGIN_KEY))
        for row in chain.sources.values()
    }


def _link(
    proof: Proof,
    each: ProvenRow,
    checked: Mapping[tuple[UUID, str | None], ClaimCheck],
    publications: Mapping[str, Publication],
) -> ProofLink:
    row, page = each.row, each.page
    quoted = {(one.url, one.speaker) for one in proof.agreeing[each.number]}
    urls = {url for url, _ in quoted}
    origins = find_origins(publications.get(url, Publication(url)) for url in urls)
    evidence_id = each.evidence.id if each.evidence else None
    found = checked.get((evidence_id, row.property)) if evidence_id else None
    return ProofLink(
        number=each.number,
        sentence=row.sentence,
        stated=row.stated,
        kind=row.kind,
        element_id=row.element_id,
        type=row.type,
        name=row.name,
        property=row.property,
        value=row.value,
        quote=each.quote,
        source_id=row.source_id,
        first_byte=row.first_byte,
        end_byte=row.end_byte,
        url=page.url if page else "",
        title=page.title if page else None,
        published=page.published if page else None,
        fetched_at=page.fetched_at if page else None,
        evidence_id=evidence_id,
        is_found=page is not None and page.is_intact and each.row.end_byte <= each.text_bytes,
        is_matched=None if found is None else found.standing in _MATCHING,
        is_stated=found is not None and found.standing is Standing.STATED,
        completed_from=found.reason if found and found.standing is Standing.COMPLETED else "",
        verdict=proof.verdict(each),
        sites=sorted({site_of(url) for url in urls}),
        origins=len(value_origins((url, origins[url], speaker) for url, speaker in quoted)),
        speaker=each.speaker,
        change=proof.change(each),
    )


_MATCHING: Final = (Standing.MATCHED, Standing.COMPLETED)


def _checked_claims(
    chain: CheckedRows, concluded_at: datetime
) -> dict[tuple[UUID, str | None], ClaimCheck]:
    """How what is proven follows by rules, with the evidence that was known then."""
    about = {each.current_id for proof in chain.proofs.values() for each in proof.rows}
    checked: dict[tuple[UUID, str | None], ClaimCheck] = {}
    for element_id in about & chain.evidence.keys():
        edge = chain.edges.get(element_id)
        ends = [element_id] if edge is None else ends_of(edge)
        known = [each for each in chain.evidence[element_id] if each.row.learned_at <= concluded_at]
        checked |= checks.check_claims([chain.names.get(end, ["?"]) for end in ends], known)
    return checked


def _count_claims(links: Iterable[ProofLink]) -> CheckedClaims:
    counts = CheckedClaims()
    for each in links:
        if each.is_matched is None:
            counts.unchecked += 1
            continue
        standing = Standing.STATED if each.is_stated else Standing.UNREAD
        if each.is_matched:
            standing = Standing.COMPLETED if each.completed_from else Standing.MATCHED
        counts.add(standing, each.verdict.verdict if each.verdict else None)
    return counts


class _ReportBuilder:
    """Shows the proofs, and of what was checked besides only what is broken."""

    def __init__(
        self, chain: CheckedRows, described: Mapping[UUID, tuple[list[ProofLink], SinceResponse]]
    ) -> None:
        self._chain = chain
        self._described = described
        self._unproven = find_unproven(chain.rests_on(), (fault.id for fault in chain.faults))
        self._breaks: defaultdict[UUID, list[LinkFault]] = defaultdict(list)
        for fault in chain.faults:
            self._breaks[fault.id].append(LinkFault(broken=fault.broken, message=fault.message))
        self._proven: defaultdict[UUID, list[str]] = defaultdict(list)
        """By evidence, the properties that it proves."""
        for each in self._links:
            if each.evidence_id is not None:
                self._proven[each.evidence_id] += [each.property] if each.property else []
        self._evidence = {
            element_id: shown
            for element_id, quotes in chain.evidence.items()
            if (shown := [each for each in quotes if self._is_shown(each.row.id)])
        }
        pages = {each.source_id for each in self._links}
        pages |= {each.row.source_id for quotes in self._evidence.values() for each in quotes}
        self._sources = [
            row for row in chain.sources.values() if row.id in pages or row.id in self._breaks
        ]
        self._rests_on = self._shown_dependencies()

    @property
    def _links(self) -> list[ProofLink]:
        return [each for links, _ in self._described.values() for each in links]

    def _is_shown(self, row_id: UUID) -> bool:
        return row_id in self._proven or row_id in self._breaks

    def _shown_dependencies(self) -> dict[UUID, list[UUID]]:
        shown = {each.row.id for quotes in self._evidence.values() for each in quotes}
        hidden = {
            each.row.id for quotes in self._chain.evidence.values() for each in quotes
        } - shown
        cited = self._chain.cited
        return {
            key: cited[key] if key in cited else [each for each in below if each not in hidden]
            for key, below in self._chain.rests_on().items()
        }

    def build(self, agent_id: UUID, root: UUID, domains: DomainPreferences) -> VerificationResponse:
        chain = self._chain
        quoted = {pair for proof in chain.proofs.values() for pair in proof.quoted}
        urls = {url for url, _ in quoted}
        sites = domains.allowed_sites(urls)
        publications = _publications(chain)
        origin_of = find_origins(
            publications.get(url, Publication(url)) for url in urls if domains.barring(url) is None
        )
        joined = join_speakers((origin_of[url], said) for url, said in quoted if url in origin_of)
        origins = sorted(set(joined.values()))
        elements: list[ThingRow] = [row for row in chain.nodes.values() if not is_conclusion(row)]
        elements += chain.edges.values()
        return VerificationResponse(
            id=root,
            agent_id=agent_id,
            holds=root not in self._unproven,
            checked=self._counts(),
            conclusions=[self._conclusion_link(row) for row in chain.conclusions],
            elements=[self._element_link(row) for row in elements],
            evidence=[
                link for quotes in self._evidence.values() for link in self._evidence_links(quotes)
            ],
            sources=[SourceLink.model_validate(self._fields(row)) for row in self._sources],
            sites=sorted(sites),
            origins=[list(origin.sites) for origin in origins],
            said_by=said_by(origins),
            barred_sites=sorted({*map(site_of, urls)} - sites),
            doubts=chain.element_doubts,
        )

    def _counts(self) -> CheckedCounts:
        """Of the proofs alone, so that they stay what they were when it was concluded."""
        chain = self._chain
        claims = {
            (each.element_id, each.property, canonical_json(each.value), span_of(each)): each
            for each in self._links
        }
        quotes = {(each.element_id, span_of(each)): each for each in claims.values()}
        counts = _count_claims(claims.values())
        found = Counter[str](each.verdict.verdict for each in claims.values() if each.verdict)
        pages = {each.source_id for each in quotes.values()}
        return chain.counts.model_copy(
            update={
                "sources": len(pages),
                "evidence": len(quotes),
                "claims": len(claims),
                "rows": len(chain.nodes) + len(chain.edges) + len(quotes) + len(pages),
                "quotes_found": sum(each.is_found for each in quotes.values()),
                "claims_supported": counts.supported,
                "claims_completed": counts.completed,
                "claims_unverified": counts.unverified,
                "claims_read": counts.read,
                "claims_stated": counts.stated,
                "claims_unchecked": counts.unchecked,
                "evidence_found_supported": found[Entailment.SUPPORTED],
                "evidence_found_contradicted": found[Entailment.CONTRADICTED],
                "evidence_found_not_stated": found[Entailment.NOT_STATED],
            }
        )

    def _fields(self, row: Row) -> dict[str, Any]:
        """The fields of the row, which its link shows in part, and what was found about it."""
        fields = dict(row)
        return fields | {
            "holds": fields["id"] not in self._unproven,
            "breaks": self._breaks[fields["id"]],
            "rests_on": self._rests_on.get(fields["id"], []),
        }

    def _conclusion_link(self, row: NodeRow) -> ConclusionLink:
        links, since = self._described[row.id]
        return ConclusionLink(
            **self._fields(row),
            link=link_of(row.type),
            summary=str(row.properties.get("summary", "")),
            doubts=self._chain.doubts.get(row.id, []),
            sentences=self._chain.sentences.get(row.id, []),
            reading=self._chain.reading_of(row),
            proof=links,
            is_proof_stored=self._chain.proofs[row.id].is_stored,
            since=since,
        )

    def _element_link(self, row: ThingRow) -> ElementLink:
        if isinstance(row, NodeRow):
            return ElementLink(**self._fields(row), link=Link.NODE)
        ends = (self._chain.nodes.get(end) for end in (row.source_id, row.target_id))
        name = " → ".join(end.name if end else "?" for end in ends)
        return ElementLink(**self._fields(row), link=Link.EDGE, name=name)

    def _evidence_links(self, evidence: Sequence[QuotedEvidence]) -> Iterator[EvidenceLink]:
        for quoted in evidence:
            yield EvidenceLink(
                **(self._fields(quoted.row) | {"as_of": known_date(quoted.row.as_of)}),
                quote=quoted.quote.decode(errors="replace"),
                active_properties=sorted(set(self._proven.get(quoted.row.id, ()))),
                verdicts=self._chain.verdicts.get(quoted.row.id, {}),
            )
