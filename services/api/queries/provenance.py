"""Evidence, sources, retractions and hashes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    ScalarSelect,
    Select,
    func,
    null,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, paginate
from shared.database.tables import (
    Agent,
    Doubt,
    Evidence,
    GraphEdge,
    GraphNode,
    PageProbe,
    RetractedSource,
    Retraction,
    Source,
)
from shared.domains import DomainPreferences, site_of
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.projection import EDGES, NODES, ElementKind, load_claims
from shared.graph.provenance.agreement import agreements
from shared.graph.provenance.claims import Claim, current_claims, is_dated_by_reading, known_date
from shared.graph.provenance.sources import PASSAGES_KEY
from shared.graph.retraction.retractions import FIRST_CURSOR
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.verification import loader
from shared.schemas.base import Page, PageRequest, ResponseModel
from shared.schemas.provenance import (
    AgreementResponse,
    ClaimResponse,
    EvidenceResponse,
    OtherValueResponse,
    PageCheckResponse,
    QuoteHighlight,
    QuoteHighlights,
    RetractionResponse,
    SourceDetails,
    SourceResponse,
    VerdictResponse,
)

_EVIDENCE = Keyset("evidence", (Evidence.as_of, Evidence.learned_at, Evidence.id))
_SOURCES = Keyset("sources", (Source.fetched_at, Source.id))
_QUOTE: ColumnElement[bytes] = func.substring(
    func.convert_to(Source.text, "UTF8", type_=LargeBinary),
    Evidence.first_byte + 1,
    Evidence.end_byte - Evidence.first_byte,
    type_=LargeBinary,
)
SOURCE_COLUMNS = (
    Source.id,
    Source.url,
    Source.title,
    Source.published,
    Source.fetched_at,
    Source.sha256,
    Source.retracted_at,
    Source.retraction_reason,
    func.coalesce(Source.reading[PASSAGES_KEY].as_boolean(), False).label("has_passages"),
)


async def list_evidence_of_node(
    session: AsyncSession, scope: GraphScope, node_id: UUID, page_request: PageRequest
) -> Page[EvidenceResponse]:
    """Lists the evidence of a node, the latest valid time first."""
    return await _evidence(session, scope, NODES, node_id, page_request)


async def list_evidence_of_edge(
    session: AsyncSession, scope: GraphScope, edge_id: UUID, page_request: PageRequest
) -> Page[EvidenceResponse]:
    """Like `list_evidence_of_node`, for an edge."""
    return await _evidence(session, scope, EDGES, edge_id, page_request)


async def load_agreement(
    session: AsyncSession, scope: GraphScope, kind: ElementKind, element_id: UUID
) -> dict[str, AgreementResponse]:
    """Which sites support each property of a node or edge, and what others say."""
    statement = (
        select(
            Evidence.id,
            Evidence.claims,
            Evidence.as_of,
            Evidence.learned_at,
            Source.retracted_at.is_not(None),
            Source.url,
            Evidence.valid_from,
            Source.published,
            Agent.barred_domains,
        )
        .join(Source, Source.id == Evidence.source_id)
        .join(Agent, Agent.id == Evidence.agent_id)
        .where(Evidence.agent_id == scope.owned_agent_id(), kind.evidence_column == element_id)
    )
    rows = list(await session.execute(statement))
    found = agreements(
        (
            Claim(
                *(evidence_id, values, as_of, learned_at, is_retracted, url),
                is_dated_by_reading(as_of, valid_from, published),
            ),
            site_of(url),
        )
        for evidence_id, values, as_of, learned_at, is_retracted, url, valid_from, published, _ in rows
    )
    domains = DomainPreferences(barred=rows[0].barred_domains if rows else ())
    allowed = domains.allowed_sites(row.url for row in rows if not row[4])
    return {
        name: AgreementResponse(
            sites=list(each.sites),
            barred=[site for site in each.sites if site not in allowed],
            others=[OtherValueResponse.model_validate(other) for other in each.others],
        )
        for name, each in found.items()
    }


async def list_sources(
    session: AsyncSession,
    scope: GraphScope,
    page_request: PageRequest,
    *,
    url: str | None = None,
    retracted: bool | None = None,
) -> Page[SourceResponse]:
    """Lists sources, most recently fetched first; with `url`, the versions of that page."""
    statement = select(*SOURCE_COLUMNS).where(Source.agent_id == scope.owned_agent_id())
    if url is not None:
        statement = statement.where(Source.url == url)
    if retracted is not None:
        statement = statement.where(Source.retracted_at.is_not(None) == retracted)
    return (await paginate(session, statement, _SOURCES, page_request)).page(source_view)


async def list_checks(
    session: AsyncSession,
    scope: GraphScope,
    page_request: PageRequest,
    *,
    failed: bool | None = None,
) -> Page[PageCheckResponse]:
    """Lists the last checks of watched pages and feeds by address; with `failed`, those that did or did not fail."""
    statement = select(PageProbe).where(PageProbe.agent_id == scope.owned_agent_id())
    if failed is not None:
        statement = statement.where(PageProbe.error.is_not(None) == failed)
    page_slice = await paginate(session, statement, _CHECKS, page_request)
    return page_slice.page(PageCheckResponse.model_validate)


_CHECKS: Final = Keyset("page_probes", (PageProbe.url,), descending=False)


async def find_source(
    session: AsyncSession, scope: GraphScope, source_id: UUID
) -> SourceDetails | None:
    """Returns the source with its text, or None where the agent has no such source."""
    row = (
        await session.execute(
            select(*SOURCE_COLUMNS, Source.step_id, Source.text).where(
                Source.agent_id == scope.owned_agent_id(), Source.id == source_id
            )
        )
    ).one_or_none()
    if row is None:
        return None
    *columns, step_id, text = row
    return SourceDetails(**dict(source_view(*columns)), step_id=step_id, text=text)


async def _evidence(
    session: AsyncSession,
    scope: GraphScope,
    kind: ElementKind,
    element_id: UUID,
    page_request: PageRequest,
) -> Page[EvidenceResponse]:
    statement = (
        select(Evidence, Source.url, Source.title, Source.published, Source.fetched_at)
        .add_columns(Source.retracted_at, _QUOTE)
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.owned_agent_id(), kind.evidence_column == element_id)
    )
    page_slice = await paginate(session, statement, _EVIDENCE, page_request)
    claims = (
        current_claims((await load_claims(session, kind, [element_id]))[element_id].claims)
        if page_slice.rows
        else {}
    )
    verdicts = await loader.load_verdicts(session, scope, [row[0].id for row in page_slice.rows])
    return Page(
        items=[_view(claims, verdicts.get(row[0].id), *row) for row in page_slice.rows],
        next=page_slice.next,
    )


def _view(
    claims: Mapping[str, Claim], verdict: VerdictResponse | None, row: Evidence, *page: Any
) -> EvidenceResponse:
    url, title, published, fetched_at, retracted_at, quote = page
    return EvidenceResponse(
        id=row.id,
        source_id=row.source_id,
        url=url,
        title=title,
        published=published,
        fetched_at=fetched_at,
        retracted_at=retracted_at,
        first_byte=row.first_byte,
        end_byte=row.end_byte,
        verdict=verdict,
        # A span that was moved may begin inside a character.
        quote=quote.decode(errors="replace"),
        claims=[
            ClaimResponse(
                property=name,
                value=value,
                holds=name in claims and claims[name].evidence_id == row.id,
            )
            for name, value in row.claims.items()
        ],
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        as_of=known_date(row.as_of),
        learned_at=row.learned_at,
    )


def source_view(*row: Any) -> SourceResponse:
    columns = dict(zip((column.key for column in SOURCE_COLUMNS), row, strict=True))
    return SourceResponse(**{**columns, "sha256": columns["sha256"].hex()})


_CONTEXT_BYTES: Final = 900
"""Read before and after a quote, to find the sentences there."""
_CONTEXTS: Final = text(f"""
with quoted as (
  select id, source_id, first_byte, end_byte from evidence
  where agent_id = {OWNED_AGENT_ID_SQL} and id = any(cast(:ids as uuid[]))
), pages as materialized (
  select id, convert_to(text, 'UTF8') as bytes from sources where id in (select source_id from quoted)
)
select quoted.id,
  substring(bytes, greatest(first_byte - :size, 0) + 1, least(:size, first_byte)) as before,
  substring(bytes, end_byte + 1, :size) as after
from quoted join pages on pages.id = quoted.source_id
""")


async def load_surroundings(
    session: AsyncSession, scope: GraphScope, evidence_ids: Collection[UUID]
) -> dict[UUID, tuple[str, str]]:
    """The text before and after each quote, up to _CONTEXT_BYTES each."""
    if not evidence_ids:
        return {}
    params = {**scope.sql_params, "ids": list(evidence_ids), "size": _CONTEXT_BYTES}
    rows = await session.execute(_CONTEXTS, params)
    # A cut may be within a character.
    return {
        row.id: (
            bytes(row.before).decode(errors="ignore"),
            bytes(row.after).decode(errors="ignore"),
        )
        for row in rows
    }


MAX_QUOTE_HIGHLIGHTS: Final = 500


async def list_quote_highlights(
    session: AsyncSession, scope: GraphScope, source_id: UUID
) -> QuoteHighlights:
    """Returns the quotes of a source by position, at most MAX_QUOTE_HIGHLIGHTS."""
    rows = (
        await session.scalars(
            select(Evidence)
            .where(Evidence.agent_id == scope.owned_agent_id(), Evidence.source_id == source_id)
            .order_by(Evidence.first_byte, Evidence.end_byte, Evidence.id)
            .limit(MAX_QUOTE_HIGHLIGHTS + 1)
        )
    ).all()
    visible_rows = rows[:MAX_QUOTE_HIGHLIGHTS]
    element_ids = [line.node_id or line.edge_id for line in visible_rows]
    names = await labels.load_labels(
        session,
        scope,
        [element_id for element_id in element_ids if element_id is not None],
    )
    quote_highlights = [
        QuoteHighlight(
            evidence_id=line.id,
            first_byte=line.first_byte,
            end_byte=line.end_byte,
            kind="edge" if line.node_id is None else "node",
            element_id=element_id,
            type=names[element_id].type,
            name=names[element_id].name,
            claims=line.claims,
        )
        for line, element_id in zip(visible_rows, element_ids, strict=True)
        if element_id is not None and element_id in names
    ]
    return QuoteHighlights(items=quote_highlights, cut=len(rows) > MAX_QUOTE_HIGHLIGHTS)


MAX_LISTED_SOURCES: Final = 5_000
"""The most recently fetched sources, which the list of pages is made of, so that its cost is limited."""
MAX_COUNTED_QUOTES: Final = 1_000
"""The quotes of one source that are counted."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page with all versions of it that were fetched. Passages that searches found are parts of it, and no versions."""

    url: str
    newest_id: UUID
    """The version that was fetched last."""
    title: str | None
    published: datetime | None
    fetched_at: datetime
    versions: int
    """Whole texts; one if only passages are stored."""
    retracted: int
    """How many of the versions are retracted."""
    quotes: int
    """Of all versions."""


async def list_pages(session: AsyncSession, scope: GraphScope) -> list[ListedPage]:
    """Lists the pages of the MAX_LISTED_SOURCES sources that were fetched last, most recently fetched first."""
    params = {**scope.sql_params, "most": MAX_LISTED_SOURCES, "counted": MAX_COUNTED_QUOTES}
    rows = await session.execute(text(_PAGES), params)
    return [ListedPage(*row) for row in rows]


_PAGES: Final = f"""
with newest as (
  select id, url, title, published, fetched_at, retracted_at,
    row_number() over (partition by url order by fetched_at desc, id desc) as place
  from (
    select id, url, title, published, fetched_at, retracted_at from sources
    where agent_id = {OWNED_AGENT_ID_SQL} order by fetched_at desc, id desc limit :most
  ) as listed
), counted as (
  select url, count(*) as texts, bool_and(retracted_at is not null) as is_retracted, sum((
    select count(*) from (select from evidence where source_id = newest.id limit :counted) as quoted
  )) as quotes
  from newest group by url
), whole as (
  -- What a text is, is read only where there are several.
  select url, count(*) as versions, count(retracted_at) as retracted from sources
  where agent_id = {OWNED_AGENT_ID_SQL} and url in (select url from counted where texts > 1)
    and (reading ->> '{PASSAGES_KEY}') is distinct from 'true'
  group by url
)
select newest.url, newest.id, title, published, newest.fetched_at, coalesce(versions, 1),
  case when is_retracted then coalesce(versions, 1) else coalesce(whole.retracted, 0) end, cast(quotes as integer)
from newest join counted on counted.url = newest.url left join whole on whole.url = newest.url
where place = 1 order by fetched_at desc, newest.url
"""


_NEWEST = Keyset("retractions", (Retraction.created_at, Retraction.id))


async def list_retractions(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    active: bool | None = None,
    source: str | None = None,
) -> Page[RetractionResponse]:
    """Lists retractions, newest first. `source` is a URL or a source's id."""
    statement = _retractions(owner_id, agent_id)
    if active is not None:
        statement = statement.where(Retraction.restored_at.is_(None) == active)
    if source is not None:
        is_source = Retraction.url == source
        if (source_id := _as_id(source)) is not None:
            is_source = Retraction.source_id == source_id
        statement = statement.where(is_source)
    return (await paginate(session, statement, _NEWEST, page_request)).page(_retraction_view)


async def find_retraction(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, retraction_id: UUID
) -> RetractionResponse | None:
    """Returns the retraction, or None where the agent has none of that id."""
    statement = _retractions(owner_id, agent_id).where(Retraction.id == retraction_id)
    row = (await session.execute(statement.execution_options(populate_existing=True))).one_or_none()
    return None if row is None else _retraction_view(*row)


def _retractions(owner_id: UUID, agent_id: UUID) -> Select[Retraction, int, int, int, int]:
    source_count = (
        select(func.count())
        .where(RetractedSource.retraction_id == Retraction.id)
        .correlate(Retraction)
        .scalar_subquery()
    )
    in_doubt = (_in_doubt(ANALYSIS_TYPE), _in_doubt(ADVICE_TYPE))
    return select(Retraction, source_count, _count_pending(), *in_doubt).where(
        Retraction.agent_id == _owned_agent_id(owner_id, agent_id)
    )


def _count_pending() -> ScalarSelect[int]:
    through = func.coalesce(RetractedSource.through, FIRST_CURSOR)
    return (
        select(func.count(Evidence.id))
        .join(RetractedSource, RetractedSource.source_id == Evidence.source_id)
        .where(
            RetractedSource.retraction_id == Retraction.id,
            RetractedSource.is_due,
            Evidence.id > through,
        )
        .correlate(Retraction)
        .scalar_subquery()
    )


def _in_doubt(type_name: str) -> ScalarSelect[int]:
    return (
        select(func.count(Doubt.conclusion_id.distinct()))
        .join(RetractedSource, RetractedSource.source_id == Doubt.source_id)
        .join(GraphNode, GraphNode.id == Doubt.conclusion_id)
        .where(
            RetractedSource.retraction_id == Retraction.id,
            Doubt.resolved_at.is_(None),
            GraphNode.type == type_name,
        )
        .correlate(Retraction)
        .scalar_subquery()
    )


def _owned_agent_id(owner_id: UUID, agent_id: UUID) -> ScalarSelect[UUID]:
    """Selects the agent's id; null where it is not the owner's."""
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return owned_agent.scalar_subquery()


def _retraction_view(
    row: Retraction, source_count: int, pending_count: int, analyses: int, advice: int
) -> RetractionResponse:
    return RetractionResponse(
        id=row.id,
        url=row.url,
        source_id=row.source_id,
        reason=row.reason,
        created_at=row.created_at,
        restored_at=row.restored_at,
        is_pending=row.due_at is not None,
        left=pending_count,
        sources=source_count,
        analyses=analyses,
        advice=advice,
    )


def _as_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None


class HashesResponse(ResponseModel):
    """Hashes in hex."""

    seal: str | None
    """The integrity hash of the row; None for rows from before integrity hashes existed."""
    text_sha256: str | None
    """The hash of a source's text or of a quote's bytes; None for other elements."""


async def hashes_of_links(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Collection[UUID]
) -> dict[UUID, HashesResponse]:
    """Returns the hashes of those nodes, edges, quotes and sources that belong to the owner's agent."""
    nothing = null().cast(LargeBinary)
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    mine = owned_agent.scalar_subquery()
    statements: list[Select[UUID, bytes | None, bytes | None]] = [
        select(GraphNode.id, GraphNode.seal, nothing).where(
            GraphNode.id.in_(ids), GraphNode.agent_id == mine
        ),
        select(GraphEdge.id, GraphEdge.seal, nothing).where(
            GraphEdge.id.in_(ids), GraphEdge.agent_id == mine
        ),
        select(Evidence.id, Evidence.seal, Evidence.quote_sha256).where(
            Evidence.id.in_(ids), Evidence.agent_id == mine
        ),
        select(Source.id, Source.seal, Source.sha256).where(
            Source.id.in_(ids), Source.agent_id == mine
        ),
    ]
    hashes: dict[UUID, HashesResponse] = {}
    for statement in statements:
        for link_id, seal, digest in await session.execute(statement):
            hashes[link_id] = HashesResponse(seal=_hex(seal), text_sha256=_hex(digest))
    return hashes


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
