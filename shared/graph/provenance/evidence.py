"""Evidence: quotes of stored pages, verified word for word before a fact is written."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.database.transaction import Transaction
from shared.domains import host_of
from shared.graph.grounding.passages import Cited, Level, WrittenNode
from shared.graph.grounding.passages import Page as ReadPage
from shared.graph.grounding.values import Quoted, check_element
from shared.graph.provenance import integrity, sources
from shared.graph.provenance.claims import UNKNOWN_DATE, Claim
from shared.graph.provenance.page_reading import Span, find_quote, nearest_sentence
from shared.graph.provenance.sources import Page
from shared.graph.provenance.speakers import match_speaker
from shared.graph.provenance.validity import check_period, states_start
from shared.graph.scope import GraphScope
from shared.graph.validation import refuse_unstorable
from shared.tools import Json, LeftOutError, ToolRefusalError
from shared.urls import page_key
from shared.workflow.agent_clock import AgentClock

MAX_EVIDENCE: Final = 10
"""Entries, each of which can name several sentences."""
MAX_QUOTES: Final = 20
MIN_QUOTE_CHARS, MAX_QUOTE_CHARS = 8, 1_000
_MAX_URLS_LISTED: Final = 10
_MAX_URL_CHARS: Final = 300
_MAX_PAGES_COMPARED: Final = 3
_MAX_REFUSALS: Final = 5


class UngroundedError(LeftOutError):
    """A claim does not follow from the quotes that it cites."""


@dataclass(frozen=True)
class EvidenceInput:
    """One quote and the properties it supports."""

    source_url: str
    quote: str
    properties: tuple[str, ...] | None = None
    """None means all properties that no other entry names. A name that no property has is ignored."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """The first moment at which it is no longer true."""
    start_byte: int | None = None
    """Where the quote begins in its page, if it is a numbered sentence."""
    place: str = ""
    """The argument that it is from, for messages; by default its place among the others."""
    speaker: str = ""
    """Who says it, if the quote attributes it to someone."""


@dataclass(frozen=True)
class VerifiedQuote:
    """A quote with its position in a page; `claims` are the values it supports, by property."""

    page: Page
    place: str
    span: Span
    cited: Cited
    quote_sha256: bytes
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    speaker: str | None = None
    """As it was given, until `ground_quotes` has found it on the page."""

    @property
    def as_of(self) -> datetime:
        """Publication of its page, or the start of its validity if that is earlier or the only date.

        A page cannot outweigh what is published after it, so a forecast counts from when it was made. UNKNOWN_DATE if
        neither date is known, or the only one is in the future: the time of the reading says nothing about the value.
        """
        now = self.now
        dates = [date for date in (self.valid_from, self.page.published) if date is not None]
        if self.page.published is None:
            dates = [date for date in dates if date <= now]
        return min([*dates, now]) if dates else UNKNOWN_DATE

    @property
    def learned_at(self) -> datetime:
        """When the quote was looked up."""
        return self.page.looked_up_at

    @property
    def now(self) -> datetime:
        """Now of the agent when the quote was looked up."""
        return min(AgentClock(self.learned_at, self.page.archive_date).now, self.learned_at)

    def evidence_id(self, element_id: UUID) -> UUID:
        content = integrity.evidence_content(
            self.claims, self.valid_from, self.valid_to, self.speaker
        )
        return ids.evidence_id(
            element_id, self.page.id, self.span.start_byte, self.span.end_byte, content
        )

    def claim(self, element_id: UUID) -> Claim:
        return Claim(
            self.evidence_id(element_id),
            self.claims,
            self.as_of,
            self.learned_at,
            url=self.page.url,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            published=self.page.published,
            speaker=self.speaker,
        )


async def verify_quotes(
    transaction: Transaction, scope: GraphScope, properties: Json, evidence: Sequence[EvidenceInput]
) -> list[VerifiedQuote]:
    """Locate each quote in its page. Raises ToolRefusalError, which says how to correct the input.

    It is raised if a page was not read, is retracted or is of a barred domain, or a quote is not
    in its page.
    """
    _refuse_invalid(evidence)
    claims = assign_claims(properties, evidence)
    pages = await sources.find_pages(transaction, scope, [entry.source_url for entry in evidence])
    quotes = []
    for index, (entry, values) in enumerate(zip(evidence, claims, strict=True)):
        where, versions = entry.place or f"evidence[{index}]", pages.get(entry.source_url, [])
        if not versions:
            raise await _unknown_page_error(transaction, scope, entry.source_url, where)
        quotes.append(await _verify_quote(transaction, entry, values, versions, where))
    return quotes


def assign_claims(properties: Json, evidence: Sequence[EvidenceInput]) -> list[Json]:
    """For each entry the values it supports. Values that no entry names: an entry without names does, or else each."""
    named = {name for entry in evidence for name in entry.properties or ()}
    has_general = any(entry.properties is None for entry in evidence)

    def is_supported(entry: EvidenceInput, name: str) -> bool:
        if entry.properties is not None and name in entry.properties:
            return True
        return name not in named and (entry.properties is None or not has_general)

    return [
        {name: value for name, value in properties.items() if is_supported(entry, name)}
        for entry in evidence
    ]


async def _unknown_page_error(
    transaction: Transaction, scope: GraphScope, url: str, where: str
) -> ToolRefusalError:
    urls = await sources.list_recent_urls(transaction, scope, _MAX_URLS_LISTED)
    listing = "\n".join(urls) or "none: no page has been read yet"
    return ToolRefusalError(
        f"{where}.sourceUrl: no page was read at {url[:_MAX_URL_CHARS]!r}; give the exact address of "
        f"the page with the quote. Pages that were read:\n{listing}"
    )


async def _verify_quote(
    transaction: Transaction,
    entry: EvidenceInput,
    claims: Json,
    versions: Sequence[Page],
    where: str,
) -> VerifiedQuote:
    """Find the quote in one of the versions of the page, which are the newest first."""
    if (domain := versions[0].barred_domain) is not None:
        raise ToolRefusalError(
            f"{where}.sourceUrl: this page is from {domain}, which the agent's owner has barred. It cannot be used as new "
            "evidence; use a page from another site that says so, or leave the fact out."
        )
    active = [page for page in versions if page.retracted_at is None]
    if active and all(page.is_later for page in active):
        raise ToolRefusalError(
            f"{where}.sourceUrl: this page was published on {active[0].published:%Y-%m-%d}, after today, "
            f"{active[0].archive_date}. It cannot be used as evidence; use an earlier page that says so, or leave the fact "
            "out."
        )
    active = [page for page in active if not page.is_later][: sources.MAX_VERSIONS]
    if not active:
        because = f": {reason}" if (reason := versions[0].retraction_reason) else ""
        raise ToolRefusalError(
            f"{where}.sourceUrl: this page is retracted{because}. It cannot be used as evidence; use another page "
            "that says so, or leave the fact out."
        )
    texts = []
    for page in active:
        text = await sources.load_text(transaction, page)
        if (span := _find(text, entry)) is not None:
            words = span.extract(text)
            return VerifiedQuote(
                page,
                where,
                span,
                _cited(page, text, span, words.decode()),
                integrity.sha256(words),
                claims,
                entry.valid_from,
                entry.valid_to,
                entry.speaker.strip() or None,
            )
        texts.append(text)
    nearest = nearest_sentence(texts[:_MAX_PAGES_COMPARED], entry.quote)
    hint = (
        f"The nearest sentence is: {nearest!r}. Quote word for word"
        if nearest
        else "Nothing there is similar. Quote a sentence of the page word for word"
    )
    raise ToolRefusalError(
        f"{where}.quote: it is not in {entry.source_url[:_MAX_URL_CHARS]}. {hint}, without omitting, "
        "adding or translating anything, or leave out what the page does not say."
    )


def _find(text: str, entry: EvidenceInput) -> Span | None:
    if entry.start_byte is not None:
        quote = entry.quote.encode()
        span = Span(entry.start_byte, entry.start_byte + len(quote))
        if span.extract(text) == quote:
            return span
    return find_quote(text, entry.quote)


_MAX_PAGE_CHARS: Final = 20_000
"""The text of a page by which short names are understood: its beginning, and what surrounds the quote."""


def _cited(page: Page, text: str, span: Span, words: str) -> Cited:
    reading = sources.page_reading(page, text)
    heading_span = reading.heading_above(span.start_byte)
    heading = heading_span.extract(text).decode(errors="replace") if heading_span else ""
    half = _MAX_PAGE_CHARS // 2
    if len(text) > _MAX_PAGE_CHARS:
        place = len(text.encode()[: span.start_byte].decode(errors="ignore"))
        text = f"{text[:half]}\n{text[max(half, place - half // 2) : place + half // 2]}"
    return Cited(
        ReadPage(
            page.title or "",
            host_of(page.url) or "",
            page.published.date() if page.published else None,
            text,
            reading.language,
            reading.decimal_sign,
            page.fetched_at.year,
        ),
        words,
        heading,
    )


@dataclass(frozen=True)
class GroundedQuotes:
    """The quotes with the values that each supports, and what became of the other values, by property."""

    quotes: list[VerifiedQuote]
    left_out: Mapping[str, str]
    completed: Json


def ground_quotes(
    quotes: Sequence[VerifiedQuote],
    ends: Sequence[WrittenNode],
    required: Container[str] = (),
    declared: Container[str] = (),
) -> GroundedQuotes:
    """Leaves out values that the quotes do not have, and completes those that they have in part.

    Fills in those of the `declared` properties that the publisher of the pages has.

    `ends` are the node, or both ends of the edge. A property stays with the quotes that state it. A start of validity stays
    if its page was published after it, or what is quoted of the page states it. A speaker stays if the page names them.
    Raises UngroundedError if the quotes do not name the element, or nothing of a node is left.
    """
    quoted = [
        Quoted(
            quote.cited, page_key(quote.page.url), quote.claims, quote.valid_from, quote.valid_to
        )
        for quote in quotes
    ]
    claimed = _values_of(quotes)
    outcome = check_element(ends, quoted, required, declared)
    left_out = {
        name: each.reason
        for name, each in outcome.properties.items()
        if each.level is Level.LEFT_OUT
    }
    is_nothing_left = len(ends) == 1 and 0 < len(left_out) == len(claimed)
    if outcome.element.level is Level.LEFT_OUT or is_nothing_left:
        reasons = [outcome.element.reason] if outcome.element.level is Level.LEFT_OUT else []
        reasons += [
            f"properties.{name}: {reason}"
            for name, reason in left_out.items()
            if reason not in reasons
        ]
        raise UngroundedError(
            "\n".join(reasons[:_MAX_REFUSALS])
            + "\nNothing of this is left to write. Cite the sentences that say it, or leave it out."
        )
    completed = {
        name: each.value
        for name, each in outcome.properties.items()
        if each.level is Level.COMPLETED
    }
    speakers = _match_speakers(quotes, ends, left_out)
    stated = {name: _dated(places, quotes, quoted) for name, places in outcome.stated.items()}
    grounded = []
    for place, quote in enumerate(quotes):
        claims = {
            name: completed.get(name, value)
            for name, value in {**completed, **claimed}.items()
            if name not in left_out and place in stated[name]
        }
        grounded.append(
            replace(
                quote,
                claims=claims,
                speaker=speakers.get(quote.place),
                **_period(quote, quoted[place], quotes, quoted, left_out),
            )
        )
    stating = {each.place for each in grounded if each.claims}
    # A sentence without values, beside others of its entry, only says what is meant.
    grounded = [
        replace(each, valid_from=None, valid_to=None, speaker=None)
        if each.place in stating and not each.claims
        else each
        for each in grounded
    ]
    return GroundedQuotes(grounded, left_out, completed)


def _dated(
    places: Sequence[int], quotes: Sequence[VerifiedQuote], quoted: Sequence[Quoted]
) -> set[int]:
    """Of the places of quotes that state a value: of each entry those whose own words have its period, or else all."""
    dated = {
        place
        for place in places
        if check_period(quoted[place], [quoted[place]]).level is Level.MATCHED
    }
    entries = {quotes[place].place for place in dated}
    return dated | {place for place in places if quotes[place].place not in entries}


def _match_speakers(
    quotes: Sequence[VerifiedQuote], ends: Sequence[WrittenNode], left_out: dict[str, str]
) -> dict[str, str | None]:
    """The speaker of each entry of the evidence. Adds to `left_out` why one is left out."""
    known = [end.names for end in ends if end.is_stored and not end.is_label]
    speakers: dict[str, str | None] = {}
    for place, given in {quote.place: quote.speaker for quote in quotes if quote.speaker}.items():
        cited = [quote.cited for quote in quotes if quote.place == place]
        speakers[place], reason = match_speaker(given, cited, known)
        if reason:
            left_out[f"{place}.speaker"] = reason
    return speakers


def _values_of(quotes: Sequence[VerifiedQuote]) -> Json:
    return {name: value for quote in reversed(quotes) for name, value in quote.claims.items()}


def _period(
    quote: VerifiedQuote,
    own: Quoted,
    quotes: Sequence[VerifiedQuote],
    quoted: Sequence[Quoted],
    left_out: dict[str, str],
) -> Json:
    """The validity of a quote, without a year that no quote has."""
    if (outcome := check_period(own, quoted)).level is Level.LEFT_OUT:
        left_out[f"{quote.place}.period"] = outcome.reason
        return {"valid_from": None, "valid_to": None}
    published = quote.page.published
    start = quote.valid_from
    if start is not None and (published is None or start > published):
        of_page = [
            other for each, other in zip(quotes, quoted, strict=True) if each.page == quote.page
        ]
        start = start if states_start(start, of_page) else None
    return {"valid_from": start, "valid_to": quote.valid_to}


def _refuse_invalid(evidence: Sequence[EvidenceInput]) -> None:
    typed = [entry for entry in evidence if entry.start_byte is None]
    if not evidence or len(typed) > MAX_EVIDENCE:
        raise ToolRefusalError(
            f"evidence: {len(evidence)} entries; give 1 to {MAX_EVIDENCE}, each with a page and its sentences."
        )
    if len(evidence) > MAX_QUOTES:
        raise ToolRefusalError(
            f"evidence: {len(evidence)} sentences; give 1 to {MAX_QUOTES}, the ones that say it."
        )
    for index, entry in enumerate(evidence):
        where = entry.place or f"evidence[{index}]"
        refuse_unstorable([entry.source_url, entry.quote], where)
        length = len(entry.quote.strip())
        is_typed = entry.start_byte is None
        if is_typed and not MIN_QUOTE_CHARS <= length <= MAX_QUOTE_CHARS:
            raise ToolRefusalError(
                f"{where}.quote: {length} characters; quote {MIN_QUOTE_CHARS} to {MAX_QUOTE_CHARS}, ideally the sentence "
                "that says it."
            )
        if entry.valid_from and entry.valid_to and entry.valid_to <= entry.valid_from:
            raise ToolRefusalError(
                f"{where}: validTo is not after validFrom; give a later validTo, or "
                "validFrom alone if it is still true."
            )
