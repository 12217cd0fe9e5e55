"""What a fact rests on: quotes of pages, looked up word for word before anything is written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.graph.provenance import integrity, sources
from shared.graph.provenance.claims import Claim
from shared.graph.provenance.quotes import Span, find, nearest
from shared.graph.provenance.sources import Page
from shared.graph.scope import Scope
from shared.graph.validation import refuse_unstorable
from shared.tools import Json, ToolRefusalError

MOST: Final = 10
SHORTEST_QUOTE, LONGEST_QUOTE = 8, 1_000
_URLS_TOLD: Final = 10
_URL_CHARACTERS_TOLD: Final = 300
_PAGES_COMPARED: Final = 3


@dataclass(frozen=True)
class Ground:
    """One quote, and what of a thing it bears out."""

    source_url: str
    quote: str
    properties: tuple[str, ...] | None = None
    """None is all that no other ground names."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """The first moment when it is true no more."""


@dataclass(frozen=True)
class Found:
    """A ground with its place in a page; `claims` are the values that it bears out, by property."""

    page: Page
    span: Span
    quote_sha256: bytes
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None

    @property
    def as_of(self) -> datetime:
        """Not after it was found: what is foretold for later must not stand against all that is learned until then."""
        true_from = self.valid_from or self.page.published or self.page.fetched_at
        return min(true_from, self.learned_at)

    @property
    def learned_at(self) -> datetime:
        """When it was found."""
        return self.page.looked_up_at

    def evidence_id(self, thing_id: UUID) -> UUID:
        says = integrity.canonical([self.claims, self.valid_from, self.valid_to])
        return ids.evidence_id(thing_id, self.page.id, self.span.first, self.span.end, says)

    def claim(self, thing_id: UUID) -> Claim:
        return Claim(self.evidence_id(thing_id), self.claims, self.as_of, self.learned_at)


async def found(
    session: AsyncSession, scope: Scope, properties: Json, grounds: Sequence[Ground]
) -> list[Found]:
    """Each ground with its place. Raises ToolRefusalError, which says how to mend it.

    That is where a property rests on none of them, a page was not read or is retracted, or a quote stands nowhere in it.
    """
    _refuse_bad(grounds)
    claims = claims_of(properties, grounds)
    pages = await sources.pages_at(session, scope, [ground.source_url for ground in grounds])
    shelf = _Shelf(session, scope, pages)
    return [
        await _found(shelf, ground, claimed, f"evidence[{index}]")
        for index, (ground, claimed) in enumerate(zip(grounds, claims, strict=True))
    ]


def claims_of(properties: Json, grounds: Sequence[Ground]) -> list[Json]:
    """For each ground the values that it bears out. Raises ToolRefusalError where a property rests on none."""
    named = {name for ground in grounds for name in ground.properties or ()}
    if unknown := sorted(named - properties.keys()):
        raise ToolRefusalError(
            f"evidence names {_listed(unknown)}, which is not among the properties given: "
            f"{_listed(properties) or 'none'}; write it too, or leave it out there."
        )
    rest = [name for name in properties if name not in named]
    if rest and all(ground.properties is not None for ground in grounds):
        raise ToolRefusalError(
            f"No evidence for {_listed(rest)}: add an entry with a quote that says it, or leave it out of properties. "
            "An entry without `properties` stands for all that no other names."
        )
    return [
        {name: properties[name] for name in (rest if each.properties is None else each.properties)}
        for each in grounds
    ]


class _Shelf:
    """The pages that grounds name; the text of each is read once."""

    def __init__(
        self, session: AsyncSession, scope: Scope, pages: Mapping[str, Sequence[Page]]
    ) -> None:
        self._session = session
        self._scope = scope
        self._pages = pages
        self._texts: dict[UUID, str] = {}

    async def versions(self, url: str, where: str) -> list[Page]:
        """Of the page there, those not retracted, the newest first. Raises ToolRefusalError where there is none."""
        every = self._pages.get(url, ())
        if not every:
            known = await sources.recent_urls(self._session, self._scope, _URLS_TOLD)
            told = "\n".join(known) or "none: no page has been read yet"
            raise ToolRefusalError(
                f"{where}.sourceUrl: no page was read at {url[:_URL_CHARACTERS_TOLD]!r}; name the page that the quote "
                f"stands in, exactly so. Pages that were read:\n{told}"
            )
        versions = [page for page in every if page.retracted_at is None]
        if not versions:
            because = f": {every[0].retracted_because}" if every[0].retracted_because else ""
            raise ToolRefusalError(
                f"{where}.sourceUrl: this page is retracted{because}. Nothing can rest on it; take another page that "
                "says so, or leave the fact out."
            )
        return versions[: sources.MOST_VERSIONS]

    async def text(self, page: Page) -> str:
        if page.id not in self._texts:
            self._texts[page.id] = await sources.text_of(self._session, page)
        return self._texts[page.id]


async def _found(shelf: _Shelf, ground: Ground, claims: Json, where: str) -> Found:
    versions = await shelf.versions(ground.source_url, where)
    for page in versions:
        text = await shelf.text(page)
        if (span := find(text, ground.quote)) is not None:
            sha256 = integrity.sha256(span.of(text))
            return Found(page, span, sha256, claims, ground.valid_from, ground.valid_to)
    texts = [await shelf.text(page) for page in versions[:_PAGES_COMPARED]]
    near = nearest(texts, ground.quote)
    hint = (
        f"Nearest to it is: {near!r}. Quote word for word"
        if near
        else "Nothing there is like it. Quote a sentence that stands there, word for word"
    )
    raise ToolRefusalError(
        f"{where}.quote: it does not stand in {ground.source_url[:_URL_CHARACTERS_TOLD]}. {hint}: without leaving out, "
        "adding or translating anything; or leave out what the page does not say."
    )


def _refuse_bad(grounds: Sequence[Ground]) -> None:
    if not 1 <= len(grounds) <= MOST:
        raise ToolRefusalError(
            f"evidence: {len(grounds)} entries; give 1 to {MOST}, each with the sourceUrl and a quote of a page."
        )
    for index, ground in enumerate(grounds):
        where = f"evidence[{index}]"
        refuse_unstorable([ground.source_url, ground.quote], where)
        length = len(ground.quote.strip())
        if not SHORTEST_QUOTE <= length <= LONGEST_QUOTE:
            raise ToolRefusalError(
                f"{where}.quote: {length} characters; quote {SHORTEST_QUOTE} to {LONGEST_QUOTE}, best the one sentence "
                "that says it."
            )
        if ground.valid_from and ground.valid_to and ground.valid_to <= ground.valid_from:
            raise ToolRefusalError(
                f"{where}: validTo is before validFrom, or the same; give the time in which it was true, in order, and "
                "validFrom alone where it is true still."
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
