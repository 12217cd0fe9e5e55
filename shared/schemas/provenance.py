"""Schemas of sources, evidence, retractions and verification."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from pydantic import Field

from shared.schemas.base import Json, ReadingResponse, ResponseModel
from shared.wording import found_in_words, plural


class SourceResponse(ResponseModel):
    """A web page as it was when it was fetched; a changed page is another source with the same URL."""

    id: UUID
    url: str
    title: str | None
    published: datetime | None
    """As the page or the search reports it."""
    fetched_at: datetime
    has_passages: bool = False
    """The text is what searches found of the page, and not the whole page."""
    sha256: str
    """Of the text in UTF-8, in hexadecimal."""
    retracted_at: datetime | None
    retraction_reason: str | None


class PageCheckResponse(ResponseModel):
    """The last check of a page or feed that the agent watches for changes."""

    url: str
    kind: str
    checked_at: datetime
    changed_at: datetime | None
    """Time of the check that last found a change."""
    failures: int
    """Failed checks in a row."""
    error: str | None
    """Why the last check failed: `not reached`, `unreadable` or `unsupported type`, and the reason; null: it did not."""


class SourceDetails(SourceResponse):
    step_id: UUID | None
    """The step that fetched it first."""
    text: str
    """The extracted text of the page."""


class ClaimResponse(ResponseModel):
    """The value of one property according to a quote."""

    property: str
    value: Any
    holds: bool
    """False if another claim supersedes it, it is upcoming, or its source is retracted."""
    upcoming: bool = False
    """Whether its validity begins later."""


class VerdictResponse(ResponseModel):
    """What a model found when it compared evidence with what it supports."""

    verdict: Literal["supported", "contradicted", "not_stated"]
    reason: str
    model: str
    call_id: UUID
    created_at: datetime


def readings_of(verdicts: Mapping[str, VerdictResponse]) -> list[tuple[str, VerdictResponse]]:
    """Each verdict once, with the names of its values in words, which are empty if there is no other verdict."""
    names: dict[tuple[str, str, str], list[str]] = {}
    found: dict[tuple[str, str, str], VerdictResponse] = {}
    for name, each in verdicts.items():
        key = (each.verdict, each.reason, each.model)
        found[key] = each
        names.setdefault(key, []).append(name or "itself")
    return [(", ".join(names[key]) if len(found) > 1 else "", each) for key, each in found.items()]


class SentenceReading(ResponseModel):
    """What a model found when it compared a sentence of a conclusion with what it cites."""

    number: int
    sentence: str
    """Without citations."""
    kind: Literal["states", "compares", "infers", "expects"]
    verdict: Literal[
        "supported", "contradicted", "not_stated", "follows", "plausible", "does_not_follow"
    ]
    """The last three are those of inferences and expectations."""
    reason: str
    model: str
    call_id: UUID
    created_at: datetime


class EvidenceResponse(ResponseModel):
    """A verbatim quote of a source, and what it supports of a node or edge."""

    id: UUID
    source_id: UUID
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    retracted_at: datetime | None
    first_byte: int
    end_byte: int
    """End of the span (exclusive). Offsets are in bytes of the source's text in UTF-8."""
    quote: str
    claims: list[ClaimResponse]
    """Empty if it supports only that the element exists."""
    valid_from: datetime | None
    valid_to: datetime | None
    """The first moment when it is no longer true."""
    speaker: str | None = None
    """Who says it, as the page names them; None if the page itself states it."""
    speaker_id: UUID | None = None
    """The node of this name, if there is exactly one."""
    as_of: datetime | None
    """Newer evidence supersedes older by this time; None if neither the page nor the claim has a date."""
    learned_at: datetime
    verdicts: dict[str, VerdictResponse] = Field(default_factory=dict)
    """What a model found, by property; under an empty name that the node or edge exists. Empty if no model has read it."""

    @property
    def readings(self) -> list[tuple[str, VerdictResponse]]:
        """See `readings_of`."""
        return readings_of(self.verdicts)


class OtherValueResponse(ResponseModel):
    """What other origins say of a property."""

    value: Any
    sites: list[str]
    origins: int = 1
    """How many origins these sites are."""
    as_of: datetime | None
    """The newest of these claims; None if none has a date."""
    contested: bool = False
    """Whether it and the current value cannot both hold for the same time; otherwise time has overtaken it."""
    said_by: list[str] = Field(default_factory=list)
    """The speakers, if its pages only quote someone for it."""


class UpcomingValueResponse(ResponseModel):
    """A value of a property that is not valid yet."""

    value: Any
    begins: datetime
    evidence_id: UUID
    url: str
    quote: str
    """The sentence that says so."""


class AgreementResponse(ResponseModel):
    """Which sites support the current value of a property, and how many origins they are."""

    sites: list[str]
    """Registrable domains."""
    origins: list[list[str]]
    """The sites by origin: those that carry one text or the line of one news agency, or quote only one speaker, are one."""
    said_by: list[str] = Field(default_factory=list)
    """The speakers, if the sites only quote someone for it: then it is no more than a claim."""
    barred: list[str] = Field(default_factory=list)
    """Those of these sites all of whose pages about the element the agent's owner has barred since."""
    others: list[OtherValueResponse]
    """Values that are the newest of other origins, the newest first."""
    upcoming: list[UpcomingValueResponse] = Field(default_factory=list)
    """Values that become the current one on their day, the first first."""
    begins: datetime | None = None
    """When the current value begins, if nothing is valid yet."""
    ended: datetime | None = None
    """The first moment at which the current value was no longer valid, if nothing is valid now."""


class QuoteHighlight(ResponseModel):
    """A quote in a source, and the node or edge that it supports."""

    evidence_id: UUID
    first_byte: int
    end_byte: int
    kind: Literal["node", "edge"]
    element_id: UUID
    type: str
    name: str
    claims: Json
    """Values by property; empty if it supports only that the element exists."""


class QuoteHighlights(ResponseModel):
    """In the order of the text. `cut`: there are more quotes than are listed."""

    items: list[QuoteHighlight]
    cut: bool


class CitingConclusion(ResponseModel):
    """A conclusion that cites something."""

    id: UUID
    type: str
    name: str


class DoubtResponse(ResponseModel):
    """A conclusion depends on an element that changed because a source was retracted or its node was split, or that a quote
    was read to contradict or not to state.
    """

    since: datetime
    cause: Literal["retracted", "contradicted", "not_stated", "split"] = "retracted"
    source_id: UUID
    url: str
    reason: str
    """Why the source was retracted or the node split, or what the model says that read the quote."""
    elements: list[UUID] = Field(default_factory=list)
    """The nodes and edges that it rests on, directly or not, and that this concerns."""


class RetractionResponse(ResponseModel):
    """A page or a site that is not trusted, or was not until it was restored: what was read there and what is read later."""

    id: UUID
    url: str
    """The address of the page, in one of its spellings; the domain of a site."""
    site: str | None = None
    """The domain that is barred, with its subdomains; None for a page."""
    source_id: UUID | None
    """The single version that an earlier release retracted; None if all versions are retracted."""
    reason: str
    created_at: datetime
    restored_at: datetime | None
    is_pending: bool
    """Whether dependent elements are still being processed."""
    left: int
    """Quotes of its sources whose nodes and edges are still to be processed."""
    sources: int
    analyses: int
    """Conclusions in doubt because of it, as far as it has been processed."""
    advice: int


class RetractionPreview(ResponseModel):
    """What a retraction would cover and change now."""

    url: str
    site: str | None
    pages: int
    """Addresses of which a version is stored; of a page, one."""
    sources: int
    """Their stored versions."""
    unsupported: int
    """Nodes and edges that rest on them alone."""
    changed: int
    """Nodes and edges of which another value would hold."""
    analyses: int
    """Conclusions that would be in doubt."""
    advice: int


class LinkFault(ResponseModel):
    """What is wrong with one link: a fixed code and a sentence."""

    broken: str
    message: str


class ChainLink(ResponseModel):
    """One link of a provenance chain. It `holds` if nothing is wrong with it or with anything it depends on."""

    id: UUID
    holds: bool
    breaks: list[LinkFault]


class ProofLink(ResponseModel):
    """A figure, date, name or relation that a conclusion states, with the sentence that says it: as it was when it was
    concluded.
    """

    number: int
    sentence: int
    """The sentence of the conclusion that states it first, numbered as in `sentences`."""
    stated: str
    """In the words of the conclusion; of a relation, the names of both ends."""
    kind: Literal["node", "edge"]
    element_id: UUID
    type: str
    name: str
    """Of the node, or of both ends of the edge, as it was."""
    property: str | None
    """Null: the claim is that the node or edge exists."""
    value: Any
    quote: str
    """The sentence."""
    source_id: UUID
    first_byte: int
    end_byte: int
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime | None
    evidence_id: UUID | None
    """The evidence that it is now; null: nothing says it now."""
    is_found: bool
    """Whether the stored page contains the sentence."""
    is_matched: bool | None
    """Figures and names of the claim match the sentence by rules; null: no rules were applied."""
    is_stated: bool = False
    """They do not, but the sentence has the value, word for word."""
    completed_from: str = ""
    """If code has completed the value: from what."""
    verdict: VerdictResponse | None
    """What a model had found when it was concluded; null: it had not read it."""
    sites: list[str]
    """The sites that said so when it was concluded, without retracted pages."""
    origins: int
    """Their number of origins: sites that carry one text or the line of one news agency, or quote only one speaker, are
    one.
    """
    speaker: str | None = None
    """Who says it, if the sentence attributes it to someone."""
    change: str | None
    """What has become of it since, in a sentence; null: nothing."""


class LaterLink(ResponseModel):
    """A sentence that was learned after a conclusion, about something that it states."""

    relation: Literal["confirms", "contradicts", "newer"]
    """`newer`: another value of a later date."""
    number: int
    """Of the row of the proof."""
    evidence_id: UUID
    source_id: UUID
    url: str
    value: Any
    quote: str
    learned_at: datetime


class SinceResponse(ResponseModel):
    """What was learned after a conclusion: numbers of sentences."""

    confirms: int = 0
    contradicts: int = 0
    newer: int = 0
    beside: list[str] = Field(default_factory=list)
    """What stands beside the stated values now, by node or edge: contested, upcoming and ended ones."""
    latest: list[LaterLink] = Field(default_factory=list)
    """The newest, those that contradict first."""

    @property
    def in_words(self) -> str:
        """`3 confirm, 1 contradicts`; empty if there is nothing."""
        parts = [
            f"{self.confirms:,} {'confirms' if self.confirms == 1 else 'confirm'}"
            if self.confirms
            else "",
            f"{self.contradicts:,} {'contradicts' if self.contradicts == 1 else 'contradict'}"
            if self.contradicts
            else "",
            f"{self.newer:,} {'has a newer value' if self.newer == 1 else 'have newer values'}"
            if self.newer
            else "",
        ]
        return ", ".join(filter(None, parts))


class ConclusionLink(ChainLink):
    link: str
    """`advice` or `analysis`."""
    name: str
    summary: str
    rests_on: list[UUID]
    """The nodes and edges that it cites, by their current ids; conclusions are nodes too."""
    doubts: list[DoubtResponse]
    """One per retracted source: what it depends on may be found, but not be the same as when it was concluded."""
    sentences: list[SentenceReading] = Field(default_factory=list)
    """What a model found in its sentences. Those that are missing were not read."""
    reading: ReadingResponse | None = None
    """None: no model has read it."""
    proof: list[ProofLink] = Field(default_factory=list)
    """What it states, and the sentences that say it, as they were when it was concluded."""
    is_proof_stored: bool = True
    """False: it was concluded by a release that stored no proof; this one was found in what was known then."""
    since: SinceResponse = Field(default_factory=SinceResponse)


class ElementLink(ChainLink):
    link: str
    """`node` or `edge`."""
    type: str
    name: str
    """An edge's name contains the names of both ends."""
    properties: Json
    rests_on: list[UUID]
    """Its evidence; for an edge also its ends."""


class EvidenceLink(ChainLink):
    element_id: UUID
    source_id: UUID
    quote: str
    """The current text of the span."""
    first_byte: int
    end_byte: int
    claims: Json
    active_properties: list[str]
    """The properties whose current values come from it; the others are superseded."""
    valid_from: datetime | None
    valid_to: datetime | None
    speaker: str | None = None
    """Who says it, if the quote attributes it to someone."""
    as_of: datetime | None
    learned_at: datetime
    verdicts: dict[str, VerdictResponse] = Field(default_factory=dict)
    """What a model found, by property; under an empty name that the node or edge exists. Empty if no model has read it."""

    @property
    def readings(self) -> list[tuple[str, VerdictResponse]]:
        """See `readings_of`."""
        return readings_of(self.verdicts)


class SourceLink(ChainLink):
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    retracted_at: datetime | None


class CheckedLevel(NamedTuple):
    """One level of verification, in words."""

    text: str
    is_complete: bool
    """Whether it holds for all that can reach the level."""
    speaks_against: bool = False
    """Whether something at the level speaks against what is checked."""


class CheckedCounts(ResponseModel):
    """Numbers of checked elements; conclusions are nodes."""

    sources: int = 0
    evidence: int = 0
    nodes: int = 0
    edges: int = 0
    quotes_found: int = 0
    """Quotes that their pages contain byte for byte."""
    claims_supported: int = 0
    """Claims whose figures, dates and names match their quotes by rules."""
    claims_completed: int = 0
    """Claims that code has completed from the page of their quote: from its date, its publisher, or full names on it."""
    claims_unverified: int = 0
    """Claims that rules leave to a reader."""
    claims_read: int = 0
    """Those of them whose quote a model has read, and found to support them."""
    claims_stated: int = 0
    """Those of them that no model has found supported, although their sentence has the value word for word."""
    claims_unchecked: int = 0
    """Claims from before there were rules: nothing but quoted."""
    claims: int = 0
    """Values that quotes support. A quote without values supports that its node or edge exists."""
    evidence_found_supported: int = 0
    """Claims that a model has read, and found supported by their quote."""
    evidence_found_contradicted: int = 0
    evidence_found_not_stated: int = 0
    entries: int = 0
    """Entries of the graph's journal."""
    entries_signed: int = 0
    """Those with a signature."""
    rows: int = 0
    """Rows that were compared with the journal."""
    values_supported: int = 0
    """Figures, dates and names of conclusions for which their proof has a sentence."""
    values_unverified: int = 0
    """Those that a conclusion computes or infers, or that nothing says."""
    conclusions_unchecked: int = 0
    """Conclusions of releases that stored no proof."""
    sentences: int = 0
    """Sentences of conclusions."""
    sentences_supported: int = 0
    """Those that a model has read, and that are supported by what they cite or follow from it."""
    sentences_plausible: int = 0
    """Inferences that a model has read, and that are possible."""
    conclusions_unread: int = 0
    """Conclusions of which no model has read a sentence."""

    @property
    def levels(self) -> list[CheckedLevel]:
        """The levels that were reached, the first one first; pages, commands and mails show these words."""
        is_found = self.quotes_found == self.evidence
        levels = [
            CheckedLevel(found_in_words(self.quotes_found, self.evidence), is_found, not is_found)
        ]
        for number, of_what in (
            (self.claims_supported, ""),
            (self.values_supported, " of conclusions"),
        ):
            if number:
                named = plural(number, "figure or name", "figures and names")
                verb = "matches" if number == 1 else "match"
                levels.append(CheckedLevel(f"{named}{of_what} {verb}", True))
        if self.claims_completed:
            completed = plural(self.claims_completed, "value")
            levels.append(CheckedLevel(f"{completed} completed by code from the page", True))
        if self.claims_read:
            read = plural(self.claims_read, "value or relation", "values and relations")
            levels.append(CheckedLevel(f"{read} read: supported", True))
        if self._claims_read:
            levels.append(self._reading_of_claims())
        if self.sentences_supported or self.sentences_plausible:
            supported = f"{self.sentences_supported:,} of {plural(self.sentences, 'sentence')}"
            plausible = (
                f", {self.sentences_plausible:,} plausible" if self.sentences_plausible else ""
            )
            is_complete = self.sentences_supported == self.sentences
            text = f"{supported} of conclusions read: supported{plausible}"
            levels.append(CheckedLevel(text, is_complete))
        return levels

    @property
    def _claims_read(self) -> int:
        return (
            self.evidence_found_supported
            + self.evidence_found_contradicted
            + self.evidence_found_not_stated
        )

    def _reading_of_claims(self) -> CheckedLevel:
        read, supported = self._claims_read, self.evidence_found_supported
        verdicts = {
            "supported": supported,
            "contradicted": self.evidence_found_contradicted,
            "not stated": self.evidence_found_not_stated,
        }
        counts = ", ".join(f"{number:,} {word}" for word, number in verdicts.items() if number)
        return CheckedLevel(
            f"{read:,} of {plural(self.claims, 'claim')} read:"
            f" {'supported' if supported == read else counts}",
            supported == self.claims,
            supported < read,
        )

    @property
    def unchecked(self) -> list[str]:
        """Counts of claims and conclusions that were found and not checked further."""
        unread = self.claims - self._claims_read
        older = self.claims_unchecked + self.conclusions_unchecked
        rest = self.claims_unverified - self.claims_read - self.claims_stated
        return [
            *(
                [f"{plural(self.claims_stated, 'value')} found in a sentence only"]
                if self.claims_stated
                else []
            ),
            *(
                [plural(rest, "other value or relation", "other values and relations")]
                if rest
                else []
            ),
            *([f"{plural(unread, 'claim')} not read by a model"] if unread > 0 else []),
            *(
                [f"{plural(self.conclusions_unread, 'conclusion')} not read by a model"]
                if self.conclusions_unread
                else []
            ),
            *([f"{older:,} written before there were rules"] if older else []),
        ]

    @property
    def are_claims_supported(self) -> bool:
        """Whether a model has read each claim of the proofs, and found it supported."""
        return self.evidence_found_supported == self.claims

    @property
    def in_words(self) -> str:
        """`18 sentences found, 12 figures and names match, 9 of 9 claims read: supported.`, and what was not checked."""
        text = f"{', '.join(level.text for level in self.levels)}."
        return f"{text} Not checked: {', '.join(self.unchecked)}." if self.unchecked else text


class VerificationResponse(ResponseModel):
    """The provenance chains of one conclusion down to its sources, each link once."""

    id: UUID
    agent_id: UUID
    holds: bool
    """Whether nothing was changed outside Vigil, each quote is in its page, and no rule speaks against a claim."""
    checked: CheckedCounts
    conclusions: list[ConclusionLink]
    """The requested one first."""
    elements: list[ElementLink]
    evidence: list[EvidenceLink]
    sources: list[SourceLink]
    sites: list[str]
    """The sites of the pages that it rests on, without retracted and barred ones."""
    origins: list[list[str]]
    """The sites by origin: those that carry one text or the line of one news agency, or quote only one speaker, are one. One
    author can be wrong.
    """
    said_by: list[str] = Field(default_factory=list)
    """The speakers, if all that it rests on are their words."""
    barred_sites: list[str] = Field(default_factory=list)
    """Sites of which it rests on pages that the agent's owner has barred since, and on no others."""
    doubts: list["ElementDoubt"] = Field(default_factory=list)
    """The conclusions of the chain that are in doubt, and why. A doubt is not a break: `holds` does not depend on it."""


class ElementFault(LinkFault):
    """A broken link and its element."""

    link: str
    """`source`, `evidence`, `node`, `edge`, `analysis` or `advice`; or what changes the meaning of these: `journal`, `type`,
    `name`, `merge`, `retraction`, `citation`, `doubt`, `verdict`, `position` or `proof`; or `ledger`: iterations and calls.
    """
    id: UUID
    name: str


class ElementDoubt(DoubtResponse):
    """A conclusion in doubt, which is not a broken link."""

    link: str
    """`analysis` or `advice`."""
    id: UUID
    name: str


class VerificationPage(ResponseModel):
    """A checked part of an agent's graph. Pass `next` as `cursor` to check the next part; None at the end."""

    checked: CheckedCounts
    breaks: list[ElementFault]
    doubts: list[ElementDoubt]
    root: str | None = None
    """In the page that ends the history: its newest root, in hexadecimal."""
    signatures_checked: bool = False
    """Whether the API has the key with which entries are signed."""
    next: str | None
