"""Checks of single rows. Pure: each yields the faults that it finds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from shared.database import ids
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import Citation, Cited, Found, Kind, parse
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, standing
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, SourceRow, ThingRow


def not_holding(rests_on: Mapping[UUID, Iterable[UUID]], faulty: Iterable[UUID]) -> set[UUID]:
    """The faulty ones, and all that rest on them, directly or not; circles are allowed."""
    carried_by = defaultdict(list)
    for upper, lower_ones in rests_on.items():
        for lower in lower_ones:
            carried_by[lower].append(upper)
    found, waiting = set[UUID](), list(faulty)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += carried_by[each]
    return found


class Link(StrEnum):
    """What a chain is made of."""

    ADVICE = "advice"
    ANALYSIS = "analysis"
    NODE = "node"
    EDGE = "edge"
    EVIDENCE = "evidence"
    SOURCE = "source"


class Broken(StrEnum):
    SEAL = "seal"
    """The row was changed since it was sealed."""
    UNPROVEN = "unproven"
    """Nothing speaks for it: neither evidence nor a seal."""
    ID = "id"
    """The id is not the one that follows from the row."""
    TEXT = "text"
    """A page's text is another."""
    SPAN = "span"
    """A span leads beyond its page, or through the middle of a character."""
    QUOTE = "quote"
    """What stands at the span is something else."""
    SOURCE = "source"
    """The page is not there."""
    PROPERTY = "property"
    """A property is not what follows from the evidence."""
    END = "end"
    """An edge's end is not there."""
    CITATION = "citation"
    """What is cited is not there, is of the wrong kind, or cannot be read."""
    RETRACTED = "retracted"
    """What is cited rests on retracted pages alone."""


@dataclass(frozen=True)
class Fault:
    broken: Broken
    told: str
    """What is wrong, in words; may hold text of pages, which is data."""


@dataclass(frozen=True)
class FoundFault:
    """A fault, and where it lies."""

    link: Link
    id: UUID
    name: str
    fault: Fault


_OF_TYPE: Final = {ADVICE_TYPE: Link.ADVICE, ANALYSIS_TYPE: Link.ANALYSIS}


def link_of(type_name: str) -> Link:
    """What a node of this type is."""
    return _OF_TYPE.get(type_name, Link.NODE)


Faults = Iterator[Fault]


@dataclass(frozen=True)
class Spanned:
    """Evidence with what stands at its span."""

    row: EvidenceRow
    quote: bytes
    text_bytes: int
    """How long the page's text is."""
    has_source: bool = True
    """Whether the page is there, and this agent's."""
    is_retracted: bool = False
    is_due: bool = False
    """Whether the page was retracted or restored, and what follows from that may not be written yet."""

    @property
    def claim(self) -> Claim:
        row = self.row
        return Claim(row.id, row.claims, row.as_of, row.learned_at, self.is_retracted)


@dataclass(frozen=True)
class Support:
    """What there is of all that a conclusion cites."""

    found: Found
    retracted: Collection[UUID] = ()
    """Nodes and edges that rest on retracted pages alone."""


def of_source(agent_id: UUID, row: SourceRow, text_sha256: bytes) -> Faults:
    """`text_sha256` is that of the text as it is now."""
    if text_sha256 != row.sha256:
        yield Fault(Broken.TEXT, "the text of the page is not the one that was kept")
    if ids.source_id(agent_id, row.url, row.sha256) != row.id:
        yield Fault(Broken.ID, "its id does not follow from its URL and text")
    if row.sealed(agent_id) != row.seal:
        yield Fault(Broken.SEAL, "its URL, title, dates or text were changed since it was kept")


def of_evidence(agent_id: UUID, spanned: Spanned) -> Faults:
    row = spanned.row
    derived = ids.evidence_id(row.thing_id, row.source_id, row.first_byte, row.end_byte, row.says)
    if derived != row.id:
        yield Fault(Broken.ID, "its id does not follow from what it says, of what and where")
    if row.sealed(agent_id) != row.seal:
        yield Fault(Broken.SEAL, "its span, claims or dates were changed since it was written")
    if not spanned.has_source:
        yield Fault(Broken.SOURCE, "the page that it quotes is not there")
        return
    yield from _of_span(spanned)


def _of_span(spanned: Spanned) -> Faults:
    row = spanned.row
    if row.end_byte > spanned.text_bytes:
        yield Fault(
            Broken.SPAN,
            f"its span ends at byte {row.end_byte}, and the page at {spanned.text_bytes}",
        )
    elif not _decodes(spanned.quote):
        yield Fault(Broken.SPAN, "its span cuts a character in two")
    if integrity.sha256(spanned.quote) != row.quote_sha256:
        yield Fault(Broken.QUOTE, "what stands at its span is not what was quoted")


def _of_seal(agent_id: UUID, row: ThingRow, evidence: Sequence[Spanned]) -> Faults:
    if row.seal is None:
        yield Fault(Broken.UNPROVEN, "it was written before evidence was kept, and has no seal")
    elif row.sealed(agent_id, [each.row.id for each in evidence]) != row.seal:
        yield Fault(Broken.SEAL, "it, or the list of its evidence, was changed since it was sealed")


def of_node(agent_id: UUID, row: NodeRow, evidence: Sequence[Spanned]) -> Faults:
    """Not of its id: that may have been made of an earlier spelling of its name."""
    yield from _of_seal(agent_id, row, evidence)
    if is_conclusion(row):
        if ids.node_id(agent_id, row.type, row.name) != row.id:
            yield Fault(Broken.ID, "its id does not follow from its type and name")
    else:
        yield from _of_facts(row, evidence)


def of_edge(
    agent_id: UUID, row: EdgeRow, evidence: Sequence[Spanned], ends: Mapping[UUID, str]
) -> Faults:
    """`ends` are the types of those of its ends that are there.

    Not of its id: its ends may have been others, before they were merged. An edge of an analysis rests on that alone.
    """
    yield from _of_seal(agent_id, row, evidence)
    for word, end in (("begins", row.source_id), ("ends", row.target_id)):
        if end not in ends:
            yield Fault(Broken.END, f"the node that it {word} at is not there")
    if evidence or ANALYSIS_TYPE not in ends.values():
        yield from _of_facts(row, evidence)


def of_conclusion(row: NodeRow, support: Support) -> Faults:
    cited = cited_by(row)
    for attempt in cited.malformed:
        yield Fault(Broken.CITATION, f"it cites {attempt!r}, which cannot be read")
    if not parse(_text(row, "content")).citations:
        yield Fault(Broken.CITATION, "it cites nothing")
    for citation in cited.citations:
        if not support.found.has(citation):
            yield Fault(Broken.CITATION, f"it cites {citation}, which is not there")
        elif row.type == ADVICE_TYPE and not _is_analysis(citation, support.found):
            yield Fault(Broken.CITATION, f"it cites {citation}, which is no analysis")
        if citation.id in support.retracted:
            yield Fault(Broken.RETRACTED, f"{citation} rests on retracted pages alone")


def cited_by(row: NodeRow) -> Cited:
    return parse(_text(row, "content"), _text(row, "summary"))


def is_conclusion(row: ThingRow) -> bool:
    return isinstance(row, NodeRow) and row.type in (ANALYSIS_TYPE, ADVICE_TYPE)


def _of_facts(row: ThingRow, evidence: Sequence[Spanned]) -> Faults:
    if not evidence:
        yield Fault(Broken.UNPROVEN, "no page speaks of it")
    yield from _of_properties(row.properties, evidence)


def _of_properties(properties: Mapping[str, Any], evidence: Sequence[Spanned]) -> Faults:
    claims = [each.claim for each in evidence]
    # Until what follows is written, the seal alone tells what they were.
    is_due = any(each.is_due for each in evidence)
    spoken_of = {name for claim in claims for name in claim.values}
    held = {name: claim.values[name] for name, claim in standing(claims).items()}
    for name, value in properties.items():
        if name not in spoken_of:
            yield Fault(Broken.UNPROVEN, f"no page speaks of its {name}")
        elif not is_due and _is_other(name, value, held):
            yield Fault(Broken.PROPERTY, f"its {name} is not what its evidence says")
    for name in () if is_due else held.keys() - properties.keys():
        yield Fault(Broken.PROPERTY, f"its {name} is missing, which its evidence says")


def _is_other(name: str, value: Any, held: Mapping[str, Any]) -> bool:
    return name not in held or integrity.canonical(held[name]) != integrity.canonical(value)


def _is_analysis(citation: Citation, found: Found) -> bool:
    return citation.kind is Kind.NODE and found.node_types[citation.id] == ANALYSIS_TYPE


def _text(row: NodeRow, name: str) -> str:
    """Empty where somebody has put something else there."""
    value = row.properties.get(name)
    return value if isinstance(value, str) else ""


def _decodes(quote: bytes) -> bool:
    try:
        quote.decode()
    except UnicodeDecodeError:
        return False
    return True
