"""Pages of sources: by site, and each with its quotes highlighted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import pairwise
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Form, Query
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.resources.sources import model, retractions
from services.api.resources.sources.model import ListedPage
from services.api.resources.sources.retractions import (
    MAX_REASON_CHARS,
    NewRetraction,
    Reason,
    Retracted,
    RetractionWakeup,
)
from services.api.web.rendering import PageResponse
from shared.domains import normalize_domain, site_of
from shared.schemas.base import LARGEST_PAGE, PageRequest
from shared.schemas.provenance import QuoteHighlight, RetractionResponse, SourceResponse

router = APIRouter(prefix="/agents/{agent}")

SITES_SHOWN: Final = 30
PAGES_SHOWN: Final = 8
"""Of a site, unless it alone is shown."""
MAX_SHOWN: Final = 1_000


class SourceFilter(StrEnum):
    """Which pages are listed."""

    ALL = "all"
    USED = "quoted"
    UNUSED = "not quoted"
    RETRACTED = "retracted"


@router.get("/sources")
async def list_sources(
    access: OwnedAgent,
    page: PageResponse,
    search: Annotated[str, Query(max_length=2_000)] = "",
    state: SourceFilter = SourceFilter.ALL,
    site: Annotated[str, Query(max_length=300)] = "",
    shown: Annotated[int, Query(ge=1, le=MAX_SHOWN)] = SITES_SHOWN,
) -> HTMLResponse:
    """Pages by site, each with all versions in one row."""
    pages = await model.list_pages(access)
    checks = (await model.list_checks(access, PageRequest(LARGEST_PAGE))).items
    quote_count = sum(each.quotes for each in pages)
    sites = group_by_site(filter_pages(pages, search, state), quote_count)
    if site:
        sites = [each for each in sites if each.name == site]
    return await page.answer(
        "sources/list.html",
        agent=access.agent,
        sites=sites[:shown],
        more=len(sites) - shown,
        shown=shown,
        pages_shown=MAX_SHOWN if site else PAGES_SHOWN,
        failed_checks=[each for each in checks if each.error is not None],
        checks={each.url: each for each in checks},
        page_count=len(pages),
        match_count=sum(len(each.pages) for each in sites),
        quote_count=quote_count,
        search=search.strip(),
        site=site,
        state=state,
        all_states=list(SourceFilter),
        is_cut=sum(each.versions for each in pages) >= model.MAX_LISTED_SOURCES,
        looked_through=model.MAX_LISTED_SOURCES,
    )


@dataclass(frozen=True)
class Site:
    """The pages of a registrable domain."""

    name: str
    pages: Sequence[ListedPage]
    """The most quoted first."""
    quotes: int
    share: float
    """Of all quotes of the agent."""
    fetched_at: datetime
    retracted: int
    """Pages of which a version is retracted."""


def group_by_site(pages: Iterable[ListedPage], all_quotes: int) -> list[Site]:
    """Groups pages by site, the most quoted site first."""
    by_site: dict[str, list[ListedPage]] = {}
    site_of_host: dict[str, str] = {}
    for page in pages:
        # The site follows from what stands before the path, and many pages have the same.
        host = "/".join(page.url.split("/", 3)[:3])
        if (site := site_of_host.get(host)) is None:
            site = site_of_host[host] = site_of(page.url)
        by_site.setdefault(site, []).append(page)
    sites = []
    for name, of_site in by_site.items():
        quotes = sum(page.quotes for page in of_site)
        sites.append(
            Site(
                name,
                sorted(of_site, key=lambda page: -page.quotes),
                quotes,
                quotes / all_quotes if all_quotes else 0.0,
                max(page.fetched_at for page in of_site),
                sum(page.retracted > 0 for page in of_site),
            )
        )
    return sorted(sites, key=lambda site: (-site.quotes, site.name))


def filter_pages(pages: Iterable[ListedPage], search: str, state: SourceFilter) -> list[ListedPage]:
    """The pages with `search` in their address or title, in any case."""
    words = search.strip().casefold()
    return [
        page
        for page in pages
        if (state is not SourceFilter.USED or page.quotes)
        and (state is not SourceFilter.UNUSED or not page.quotes)
        and (state is not SourceFilter.RETRACTED or page.retracted)
        and (words in page.url.casefold() or words in (page.title or "").casefold())
    ]


@router.get("/sources/{source_id}")
async def show_source(
    access: OwnedAgent, page: PageResponse, source_id: UUID, quote: UUID | None = None
) -> HTMLResponse:
    """`quote` is the evidence whose quote is marked."""
    source = await model.get_source(access, source_id)
    versions = (await model.list_sources(access, PageRequest(), url=source.url)).items
    site = barrable_site(source.url)
    if page.part == "foreseen":
        return await page.answer(
            "sources/one.html",
            agent=access.agent,
            source=source,
            site=site,
            foreseen=await retractions.preview_retraction(access, Retracted(source=str(source_id))),
            foreseen_site=None
            if site is None
            else await retractions.preview_retraction(access, Retracted(site=site)),
        )
    highlights = await model.list_quote_highlights(access, source_id)
    return await page.answer(
        "sources/one.html",
        agent=access.agent,
        source=source,
        highlights=highlights,
        chosen={place for place, each in enumerate(highlights.items) if each.evidence_id == quote},
        pieces=split_at_quotes(source.text, highlights.items),
        element_count=len({item.element_id for item in highlights.items}),
        versions=[version for version in versions if version.id != source_id],
        retraction=await _latest_retraction(access, source),
        reason_characters=MAX_REASON_CHARS,
        site=site,
        foreseen=None,
        foreseen_site=None,
    )


def barrable_site(url: str) -> str | None:
    """The site of a page, if it is a domain that can be barred."""
    try:
        return normalize_domain(site_of(url))
    except ValueError:
        return None


_CONTINUES: Final = 0b1000_0000
_CONTINUES_OF: Final = 0b1100_0000
"""In UTF-8, each byte of a character except its first begins with the bits 10."""


@dataclass(frozen=True)
class TextPiece:
    text: str
    highlights: Sequence[int]
    """Indices of the quotes that the piece is part of; empty for plain text."""
    begins: Sequence[int]
    """Those of `highlights` that begin here."""


def split_at_quotes(text: str, highlights: Sequence[QuoteHighlight]) -> list[TextPiece]:
    """Splits `text` at the ends of quotes.

    Spans are in bytes of its UTF-8, may overlap, and are widened to whole characters.
    """
    page = text.encode()
    spans = [
        (_char_border(page, each.first_byte, -1), _char_border(page, each.end_byte, 1))
        for each in highlights
    ]
    cuts = sorted({0, len(page), *(edge for span in spans for edge in span)})
    opening: dict[int, list[int]] = {}
    for place, (first, end) in enumerate(spans):
        if first < end:
            opening.setdefault(first, []).append(place)
    result: list[TextPiece] = []
    open_now: list[int] = []
    for first, end in pairwise(cuts):
        begins = opening.get(first, [])
        open_now = [place for place in open_now if spans[place][1] > first] + begins
        result.append(TextPiece(page[first:end].decode(), tuple(open_now), tuple(begins)))
    return result


def _char_border(page: bytes, place: int, step: int) -> int:
    """The nearest place between two characters, before `place` or after it."""
    place = max(0, min(place, len(page)))
    while 0 < place < len(page) and page[place] & _CONTINUES_OF == _CONTINUES:
        place += step
    return place


async def _latest_retraction(
    access: AgentAccess, source: SourceResponse
) -> RetractionResponse | None:
    """Returns the active retraction, or else the last one that was undone, of this version, its page or its site."""
    request = PageRequest(10)
    found = (await model.list_retractions(access, request, source=str(source.id))).items
    active = [each for each in found if each.restored_at is None]
    newest = active or found
    if source.retracted_at is None:
        newest = [each for each in newest if each.is_pending or each.restored_at is not None]
    return newest[0] if newest else None


class RetractionForm(BaseModel):
    """Retracts the page, or bars its site."""

    reason: Reason
    bar_site: bool = False


@router.post("/sources/{source_id}/retract")
async def retract_source(
    access: OwnedAgent,
    afterwards: RetractionWakeup,
    source_id: UUID,
    form: Annotated[RetractionForm, Form()],
) -> Response:
    source = await model.get_source(access, source_id)
    site = barrable_site(source.url) if form.bar_site else None
    of_page = None if site else str(source_id)
    await retractions.retract_source(
        access, afterwards, NewRetraction(source=of_page, site=site, reason=form.reason)
    )
    return _to_source(access, source_id)


@router.post("/sources/{source_id}/restore/{retraction_id}")
async def restore_source(
    access: OwnedAgent, afterwards: RetractionWakeup, source_id: UUID, retraction_id: UUID
) -> Response:
    await retractions.restore_source(access, afterwards, retraction_id)
    return _to_source(access, source_id)


def _to_source(access: AgentAccess, source_id: UUID) -> Response:
    place = f"/agents/{access.agent.id}/sources/{source_id}"
    return RedirectResponse(place, HTTPStatus.SEE_OTHER)
