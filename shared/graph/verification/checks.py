"""Checks of single rows. Pure: each check yields the faults that it finds."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Entailment
from shared.graph.conclusions import rules
from shared.graph.conclusions.citations import (
    Citation,
    CitedElements,
    Kind,
    ParsedCitations,
    parse_citations,
)
from shared.graph.conclusions.commitments import stored_date
from shared.graph.conclusions.proofs import ProofRow, count_figures, hash_proof
from shared.graph.grounding.dates import find_moments, parse_date
from shared.graph.grounding.names import contains
from shared.graph.grounding.passages import Cited, Level, Outcome, WrittenNode
from shared.graph.grounding.quantities import find_quantities, to_decimal
from shared.graph.grounding.values import (
    RULES,
    ElementOutcome,
    Quoted,
    check_element,
)
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import (
    UNKNOWN_DATE,
    Claim,
    current_claims,
    is_dated_by_reading,
)
from shared.graph.provenance.evidence import MAX_QUOTES
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, SourceRow, ThingRow
from shared.graph.provenance.validity import check_period
from shared.tools.readings import EXISTS
from shared.urls import page_key


def find_unproven(rests_on: Mapping[UUID, Iterable[UUID]], faulty: Iterable[UUID]) -> set[UUID]:
    """The faulty ids, and all that rest on them, directly or indirectly; cycles are allowed."""
    dependents = defaultdict(list)
    for dependent, dependencies in rests_on.items():
        for dependency in dependencies:
            dependents[dependency].append(dependent)
    unproven, pending = set[UUID](), list(faulty)
    while pending:
        element_id = pending.pop()
        if element_id not in unproven:
            unproven.add(element_id)
            pending += dependents[element_id]
    return unproven


class Link(StrEnum):
    """The kinds of links in a chain of proof."""

    ADVICE = "advice"
    ANALYSIS = "analysis"
    NODE = "node"
    EDGE = "edge"
    EVIDENCE = "evidence"
    SOURCE = "source"
    # What is no link itself, but changes what links mean.
    JOURNAL = "journal"
    TYPE = "type"
    NAME = "name"
    MERGE = "merge"
    RETRACTION = "retraction"
    CITATION = "citation"
    DOUBT = "doubt"
    VERDICT = "verdict"
    POSITION = "position"
    PROOF = "proof"
    LEDGER = "ledger"


class FaultKind(StrEnum):
    SEAL = "seal"
    """The row was changed since it was sealed."""
    UNPROVEN = "unproven"
    """It has neither evidence nor a seal."""
    ID = "id"
    """The id does not follow from the row."""
    TEXT = "text"
    """The text of a page has changed."""
    SPAN = "span"
    """A byte range ends beyond its page, or splits a character."""
    QUOTE = "quote"
    """The text at the byte range is not what was quoted."""
    SOURCE = "source"
    """The page does not exist."""
    PROPERTY = "property"
    """A property does not follow from the evidence."""
    END = "end"
    """An end of an edge does not exist."""
    GROUNDING = "grounding"
    """A claim does not follow from the quotes that it cites, or a conclusion from the elements that it cites."""
    CITATION = "citation"
    """A cited element does not exist, is of the wrong kind, or the citation is malformed."""
    RETRACTED = "retracted"
    """A cited element rests only on retracted sources, and the conclusion is not marked as in doubt."""
    JOURNAL = "journal"
    """An entry of the journal was changed, is missing, is not signed, or is not Vigil's."""
    CHANGED = "changed"
    """A row is not what the journal says."""
    LEDGER = "ledger"
    """Iterations, texts or calls are missing that Vigil has not deleted because of their age."""
    PROOF = "proof"
    """A proof was changed, or a sentence of it is not in its page."""
    POSITION = "position"
    """Two pieces of advice stand on one subject, or what is said of one's state does not agree."""


@dataclass(frozen=True)
class Fault:
    kind: FaultKind
    description: str
    """What is wrong, for people. Can contain text of pages, which is untrusted data."""


_LINKS: Final = {ADVICE_TYPE: Link.ADVICE, ANALYSIS_TYPE: Link.ANALYSIS}


def link_of(type_name: str) -> Link:
    """The link that a node of this type is."""
    return _LINKS.get(type_name, Link.NODE)


Faults = Iterator[Fault]


class QuotedEvidence(NamedTuple):
    """Evidence with the bytes at its byte range."""

    row: EvidenceRow
    quote: bytes
    text_bytes: int
    """Length of the page's text."""
    has_source: bool = True
    """Whether the page exists and belongs to this agent."""
    is_retracted: bool = False
    is_due: bool = False
    """Whether the propagation of its page's retraction or restoration, of a refusal, or of the begin or end of its validity
    is pending.
    """
    step_id: UUID | None = None
    """The step that found it."""
    url: str = ""
    """Address of its page."""
    published: datetime | None = None
    """When the page was published."""
    now: datetime | None = None
    """Now of its agent. None: that of a release in whose graphs validity did not count."""
    refused: Sequence[str] = ()
    """The names of the values that a reading has refused."""
    cited: Cited | None = None
    """The quote with what surrounds it; None if the evidence was not checked by rules when it was written."""

    @property
    def claim(self) -> Claim:
        row = self.row
        by_reading = is_dated_by_reading(row.as_of, row.valid_from, self.published)
        return Claim(
            *(row.id, row.claims, row.as_of, row.learned_at, self.is_retracted, self.url),
            is_dated_by_reading=by_reading,
            valid_from=None if self.now is None else row.valid_from,
            valid_to=None if self.now is None else row.valid_to,
            published=self.published,
            speaker=row.speaker,
            refused=frozenset(self.refused),
        )


def now_of(evidence: Iterable[QuotedEvidence]) -> datetime:
    """Now of the agent of the evidence; any time if it is of a release in whose graphs validity did not count."""
    return max((each.now for each in evidence if each.now), default=UNKNOWN_DATE)


def check_source(agent_id: UUID, row: SourceRow, text_sha256: bytes) -> Faults:
    """`text_sha256` is the hash of the stored text."""
    if text_sha256 != row.sha256:
        yield Fault(FaultKind.TEXT, "the text of the page was changed")
    if ids.source_id(agent_id, row.url, row.sha256) != row.id:
        yield Fault(FaultKind.ID, "its id does not follow from its URL and text")
    if row.sealed(agent_id) != row.seal:
        yield Fault(
            FaultKind.SEAL, "its URL, title, dates or text were changed since it was stored"
        )


def check_evidence(agent_id: UUID, quoted: QuotedEvidence) -> Faults:
    row = quoted.row
    derived = ids.evidence_id(
        row.element_id, row.source_id, row.first_byte, row.end_byte, row.content_key
    )
    if derived != row.id:
        yield Fault(FaultKind.ID, "its id does not follow from what it says, of what and where")
    if row.sealed(agent_id) != row.seal:
        yield Fault(FaultKind.SEAL, "its span, claims or dates were changed since it was written")
    if not quoted.has_source:
        yield Fault(FaultKind.SOURCE, "the page that it quotes does not exist")
        return
    yield from _check_span(quoted)


def _check_span(quoted: QuotedEvidence) -> Faults:
    row = quoted.row
    if row.end_byte > quoted.text_bytes:
        yield Fault(
            FaultKind.SPAN,
            f"its byte range ends at {row.end_byte}, but the page at {quoted.text_bytes}",
        )
    elif not is_text(quoted.quote):
        yield Fault(FaultKind.SPAN, "its byte range splits a character")
    if integrity.sha256(quoted.quote) != row.quote_sha256:
        yield Fault(FaultKind.QUOTE, "the text at its byte range is not the quote")


@dataclass
class CheckedClaims:
    """How many claims were checked by rules. Evidence without a claim counts as one: that the element exists.

    The same of conclusions counts their numbers, dates and names; of those that were not checked, the conclusions.
    """

    supported: int = 0
    completed: int = 0
    """Code filled them in, from the page of the quote."""
    unverified: int = 0
    """Rules leave them to a reader."""
    read: int = 0
    """Those of them that a model has found supported."""
    stated: int = 0
    """Those of them that it has not, although their sentences have them."""
    unchecked: int = 0
    """Written before there were rules: nothing but quoted or cited."""

    def add(self, standing: "Standing", verdict: str | None) -> None:
        """Count a claim; `verdict` is what a model has found of its quote."""
        match standing:
            case Standing.MATCHED:
                self.supported += 1
            case Standing.COMPLETED:
                self.completed += 1
            case _:
                is_read = verdict == Entailment.SUPPORTED
                self.unverified += 1
                self.read += is_read
                self.stated += not is_read and standing is Standing.STATED


class Standing(Enum):
    """How a claim follows from its sentence, by rules."""

    MATCHED = "matched"
    COMPLETED = "completed"
    """The page of the sentence has the rest: its date, publisher or full names."""
    STATED = "stated"
    """The sentence has the value; the rules cannot tell that it is this one of this node or edge."""
    UNREAD = "unread"


class ClaimCheck(NamedTuple):
    standing: Standing
    reason: str = ""
    """From what it is completed."""


def check_grounding(
    ends: Sequence[Sequence[str]],
    evidence: Sequence[QuotedEvidence],
    counts: CheckedClaims,
    verdicts: Mapping[tuple[UUID, str], str],
) -> Iterator[tuple[UUID, Fault]]:
    """The faults by id of the evidence, of a node or edge with all its evidence.

    `ends` are the names of the node, or of each end, and `verdicts` what a model has found, by evidence and property
    (EXISTS: that the element exists). Without the texts of the pages, names and texts are no faults: only figures and dates
    by themselves are.
    """
    counts.unchecked += sum(
        max(1, len(quoted.row.claims)) for quoted in evidence if quoted.cited is None
    )
    for quoted, quotes, place, outcome in _check_quotes(ends, evidence):
        for name, claim_check in _claim_checks(quotes[place], outcome).items():
            counts.add(claim_check.standing, verdicts.get((quoted.row.id, name or EXISTS)))
        if quoted.row.rules != RULES:
            # Other rules accepted it.
            continue
        quote = quotes[place]
        if (period := check_period(quote, quotes)).level is Level.LEFT_OUT:
            yield quoted.row.id, Fault(FaultKind.GROUNDING, f"its {period.reason}")
        for name in quote.claims:
            if (claim := outcome.properties[name]).level is Level.LEFT_OUT:
                yield quoted.row.id, Fault(FaultKind.GROUNDING, f"its {name}: {claim.reason}")


def check_claims(
    ends: Sequence[Sequence[str]], evidence: Sequence[QuotedEvidence]
) -> dict[tuple[UUID, str | None], ClaimCheck]:
    """How claims follow from their quotes, by id of the evidence and property; None stands for the node or edge itself.

    The arguments are those of `check_grounding`. Evidence that no rules have checked is left out.
    """
    found: dict[tuple[UUID, str | None], ClaimCheck] = {}
    for quoted, quotes, place, outcome in _check_quotes(ends, evidence):
        found[quoted.row.id, None] = _element_check(outcome)
        for name, claim_check in _claim_checks(quotes[place], outcome).items():
            found[quoted.row.id, name] = claim_check
    return found


def _claim_checks(quote: Quoted, outcome: ElementOutcome) -> dict[str | None, ClaimCheck]:
    """Of each claim, or of the element alone if the quote claims nothing else."""
    return {
        name: _claim_check(quote, name, outcome.properties[name], outcome.element.level)
        for name in quote.claims
    } or {None: _element_check(outcome)}


def _element_check(outcome: ElementOutcome) -> ClaimCheck:
    is_matched = outcome.element.level <= Level.COMPLETED
    return ClaimCheck(Standing.MATCHED if is_matched else Standing.UNREAD)


def _claim_check(quote: Quoted, name: str, outcome: Outcome, element: Level) -> ClaimCheck:
    """How a value follows, of a node or edge of that level."""
    value, page = quote.claims[name], quote.cited.page
    if outcome.level is Level.COMPLETED:
        return ClaimCheck(Standing.COMPLETED, outcome.reason)
    if page.publisher and value is not None and value == page.publisher.value_of(name):
        return ClaimCheck(Standing.COMPLETED, "it is that of the page")
    is_stated = outcome.level is Level.MATCHED or (
        outcome.level is Level.UNREAD and _has_value(quote.cited, value)
    )
    if is_stated and _lacks_year(quote.cited.sentence, value):
        return ClaimCheck(Standing.COMPLETED, "completed from the date of the page")
    if max(outcome.level, element) is Level.MATCHED:
        return ClaimCheck(Standing.MATCHED)
    return ClaimCheck(Standing.STATED if is_stated else Standing.UNREAD)


_DATE: Final = re.compile(r"(\d{4})-\d\d(?:-\d\d)?")


def _lacks_year(sentence: str, value: Any) -> bool:
    """Whether the value is a date, and the sentence does not say its year."""
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    return found is not None and found[1] not in sentence


def _has_value(cited: Cited, value: Any) -> bool:
    """Whether the sentence has the figure, the date, or the text word for word."""
    page = cited.page
    if isinstance(value, str):
        if (day := parse_date(value)) is not None:
            moments = find_moments(cited.sentence, page.language, page.published)
            return any(each.states(day) for each in moments)
        return bool(value.strip()) and contains(value.strip(), [cited.sentence])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    number = to_decimal(value)
    figures = find_quantities(cited.sentence, page.language, page.decimal_sign)
    return any(number in each.values for each in figures)


def _check_quotes(
    ends: Sequence[Sequence[str]], evidence: Sequence[QuotedEvidence]
) -> Iterator[tuple[QuotedEvidence, list[Quoted], int, ElementOutcome]]:
    """Each piece of evidence that rules have checked, with all such quotes, its place among them, and its outcome."""
    checked = [quoted for quoted in evidence if quoted.cited is not None]
    quotes = [
        Quoted(
            each.cited, page_key(each.url), each.row.claims, each.row.valid_from, each.row.valid_to
        )
        for each in checked
        if each.cited is not None
    ]
    nodes = [WrittenNode(names) for names in ends]
    for place, (quoted, quote) in enumerate(zip(checked, quotes, strict=True)):
        # Other quotes name the element, and have a part of a value that several state.
        others = [
            other._replace(claims=_common(other.claims, quote.claims))
            for number, other in enumerate(quotes)
            if number != place
        ]
        others.sort(key=lambda other: not other.claims)
        # The schema is not known: any text may be required.
        outcome = check_element(nodes, [quote, *others[:_MAX_TOGETHER]], quote.claims)
        yield quoted, quotes, place, outcome


_MAX_TOGETHER: Final = MAX_QUOTES
"""Other quotes with which one is checked: as many as a write can have."""


def _common(claims: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
    """The claims that both have."""
    return {
        name: value
        for name, value in claims.items()
        if name in others and integrity.is_equal(value, others[name])
    }


def _check_seal(agent_id: UUID, row: ThingRow, evidence: Sequence[QuotedEvidence]) -> Faults:
    if row.seal is None:
        yield Fault(
            FaultKind.UNPROVEN, "it was written before evidence was stored, and has no seal"
        )
    elif row.sealed(agent_id, [quoted.row.id for quoted in evidence]) != row.seal:
        yield Fault(
            FaultKind.SEAL, "it, or the list of its evidence, was changed since it was sealed"
        )


def check_node(agent_id: UUID, row: NodeRow, evidence: Sequence[QuotedEvidence]) -> Faults:
    """Does not check the id, which can derive from an earlier spelling of the name."""
    yield from _check_seal(agent_id, row, evidence)
    if is_conclusion(row):
        if ids.node_id(agent_id, row.type, row.name) != row.id:
            yield Fault(FaultKind.ID, "its id does not follow from its type and name")
    else:
        yield from _check_facts(row, evidence)


def check_edge(
    agent_id: UUID, row: EdgeRow, evidence: Sequence[QuotedEvidence], ends: Mapping[UUID, str]
) -> Faults:
    """`ends` maps the ends that exist to their types.

    Does not check the id, which can derive from ends that were merged since. An edge of an analysis needs no
    evidence.
    """
    yield from _check_seal(agent_id, row, evidence)
    for verb, end in (("starts", row.source_id), ("ends", row.target_id)):
        if end not in ends:
            yield Fault(FaultKind.END, f"the node that it {verb} at does not exist")
    if evidence or ANALYSIS_TYPE not in ends.values():
        yield from _check_facts(row, evidence)


def check_conclusion(row: NodeRow, existing: CitedElements, *, is_doubted: bool) -> Faults:
    """`existing` are the cited elements, and which of them rest only on retracted sources. That puts the conclusion in
    doubt, which is no fault; that it is not marked so is one.
    """
    cited = cited_by(row)
    for malformed in cited.malformed:
        yield Fault(FaultKind.CITATION, f"it cites {malformed!r}, which is malformed")
    if not parse_citations(_text_property(row, "content")).citations:
        yield Fault(FaultKind.CITATION, "it cites nothing")
    for citation in cited.citations:
        if not existing.has(citation):
            yield Fault(FaultKind.CITATION, f"it cites {citation}, which does not exist")
        elif row.type == ADVICE_TYPE and not _is_analysis(citation, existing):
            yield Fault(FaultKind.CITATION, f"it cites {citation}, which is not an analysis")
        if citation.id in existing.unsupported and not is_doubted:
            yield Fault(
                FaultKind.RETRACTED,
                f"{citation} rests only on retracted pages, and it is not marked as in doubt",
            )


class PositionRow(NamedTuple):
    """A row of `positions`, with what belongs to it."""

    advice_id: UUID
    subject: Sequence[UUID]
    confidence: Decimal | None
    horizon: date | None
    confirmations: int
    ended_at: datetime | None
    replaced_by: UUID | None
    reason: str | None
    action: str
    is_replacement_known: bool
    """Whether `replaced_by` is advice of the agent."""


def check_position(row: NodeRow, position: PositionRow, others: Iterable[PositionRow]) -> Faults:
    """`row` is the advice, and `others` are the positions of its agent that have not ended."""
    if position.ended_at is None:
        if position.replaced_by is not None:
            yield Fault(FaultKind.POSITION, "it stands, although other advice replaces it")
        for other in others:
            if other.advice_id != position.advice_id and set(other.subject) & set(position.subject):
                yield Fault(
                    FaultKind.POSITION,
                    f"{position.action} and {other.action} [node:{other.advice_id}] stand on one subject",
                )
    elif position.replaced_by is not None and not position.is_replacement_known:
        yield Fault(FaultKind.POSITION, "the advice that replaces it does not exist")
    elif not position.reason:
        yield Fault(FaultKind.POSITION, "it no longer stands, and nothing says why")
    given = row.properties.get("confidence"), stored_date(row.properties.get("horizon"))
    if not position.confirmations and given != (
        None if position.confidence is None else float(position.confidence),
        position.horizon,
    ):
        yield Fault(FaultKind.POSITION, "its confidence or horizon is not what was advised")


def check_values(row: NodeRow, proven: Set[str], counts: CheckedClaims) -> Faults:
    """Counts the figures of a conclusion, and checks how many analyses an advice cites.

    `proven` are the words for which its stored proof has a sentence.
    """
    assert row.rules is not None, "those without a stored proof are only counted"
    stated, supported = count_figures(row.name, row.properties, proven)
    counts.supported += supported
    counts.unverified += stated - supported
    analyses = set(parse_citations(_text_property(row, "content")).ids())
    if row.type == ADVICE_TYPE and len(analyses) < rules.min_analyses(row.rules):
        yield Fault(FaultKind.CITATION, f"it cites {len(analyses)} analysis only")


def check_proof(row: NodeRow, proof: Sequence[ProofRow]) -> Faults:
    """Whether the proof of a conclusion is the one that its seal covers."""
    stored = rules.proof_sha256(row.rules)
    if (hash_proof(proof) if stored or proof else None) != stored:
        yield Fault(FaultKind.PROOF, "its proof was changed since it was concluded")


def cited_by(row: NodeRow) -> ParsedCitations:
    return parse_citations(_text_property(row, "content"), _text_property(row, "summary"))


def is_conclusion(row: ThingRow) -> bool:
    return isinstance(row, NodeRow) and row.type in (ANALYSIS_TYPE, ADVICE_TYPE)


def _check_facts(row: ThingRow, evidence: Sequence[QuotedEvidence]) -> Faults:
    if not evidence:
        yield Fault(FaultKind.UNPROVEN, "no page supports it")
    yield from _check_properties(row.properties, evidence)


def _check_properties(properties: Mapping[str, Any], evidence: Sequence[QuotedEvidence]) -> Faults:
    claims = [quoted.claim for quoted in evidence]
    # While a propagation is pending, only the seal proves the properties.
    is_due = any(quoted.is_due for quoted in evidence)
    claimed_names = {name for claim in claims for name in claim.values}
    winners = current_claims(claims, now_of(evidence))
    for name, value in properties.items():
        if name not in claimed_names:
            yield Fault(FaultKind.UNPROVEN, f"no page supports its {name}")
        elif not is_due and not (
            name in winners and integrity.is_equal(winners[name].values[name], value)
        ):
            yield Fault(FaultKind.PROPERTY, f"its {name} is not what its evidence says")
    for name in () if is_due else winners.keys() - properties.keys():
        yield Fault(FaultKind.PROPERTY, f"its {name} is missing, although its evidence says it")


def _is_analysis(citation: Citation, cited: CitedElements) -> bool:
    return citation.kind is Kind.NODE and cited.node_types[citation.id] == ANALYSIS_TYPE


def _text_property(row: NodeRow, name: str) -> str:
    """Empty if the property is not a string."""
    value = row.properties.get(name)
    return value if isinstance(value, str) else ""


def is_text(quote: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        quote.decode()
    except UnicodeDecodeError:
        return False
    return True
