"""Sources: fetched pages, the evidence in them, retractions, and hashes."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Query
from sqlalchemy import ColumnElement, LargeBinary, ScalarSelect, Select, func, or_, select, text

from services.api.auth.dependencies import AgentAccess, OwnedAgent, parse_id
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.reading import columns_of, paginate_rows, read_one, read_page
from shared.database.pagination import Keyset
from shared.database.tables import (
    Agent,
    Doubt,
    Evidence,
    GraphNode,
    PageProbe,
    RetractedSource,
    Retraction,
    Source,
)
from shared.database.tables.graph import NAME_IN_SMALL
from shared.domains import DomainPreferences
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.projection import ElementKind, load_claims
from shared.graph.provenance import coverage
from shared.graph.provenance.agreement import agreements
from shared.graph.provenance.claims import Claim, current_claims, is_dated_by_reading, known_date
from shared.graph.provenance.origins import ORIGIN_KEY, Publication, find_origins, said_by, sites_of
from shared.graph.provenance.sources import PASSAGES_KEY
from shared.graph.retraction.retractions import FIRST_CURSOR
from shared.graph.scope import OWNED_AGENT_ID_SQL
from shared.graph.verification import loader
from shared.schemas.base import PageRequest, ResponseModel
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
    UpcomingValueResponse,
)
from shared.workflow.agent_clock import AgentClock

_EVIDENCE: Final = Keyset("evidence", (Evidence.as_of, Evidence.learned_at, Evidence.id))
_SOURCES: Final = Keyset("sources", (Source.fetched_at, Source.id))
_CHECKS: Final = Keyset("page_probes", (PageProbe.url,), descending=False)
_RETRACTIONS: Final = Keyset("retractions", (Retraction.created_at, Retraction.id))
_QUOTE: Final[ColumnElement[bytes]] = func.substring(
    func.convert_to(Source.text, "UTF8", type_=LargeBinary),
    Evidence.first_byte + 1,
    Evidence.end_byte - Evidence.first_byte,
    type_=LargeBinary,
)
_COMPUTED: Final[dict[str, ColumnElement[Any]]] = {
    "sha256": func.encode(Source.sha256, "hex"),
    "has_passages": func.coalesce(Source.reading[PASSAGES_KEY].as_boolean(), False),
}


async def list_evidence(
    access: AgentAccess, kind: ElementKind, element_id: UUID, page_request: PageRequest
) -> Page[EvidenceResponse]:
    """Lists the evidence of a node or an edge, the latest valid time first."""
    session, scope = access.session, access.scope
    of_source = Source.url, Source.title, Source.published, Source.fetched_at, Source.retracted_at
    statement = (
        select(*columns_of(Evidence, EvidenceResponse), *of_source, _QUOTE.label("quote"))
        .join(Source, Source.id == Evidence.source_id)
        .where(
            Evidence.agent_id == scope.owned_agent_id(),
            getattr(Evidence, kind.evidence_column) == element_id,
        )
    )
    rows, following = await paginate_rows(session, statement, _EVIDENCE, page_request)
    holding, upcoming = set[tuple[str, UUID]](), set[UUID]()
    if rows:
        known = (await load_claims(session, kind, [element_id]))[element_id]
        winners = current_claims(known.claims, known.now)
        holding = {(name, claim.evidence_id) for name, claim in winners.items()}
        upcoming = {
            each.evidence_id
            for each in known.claims
            if not each.is_retracted and each.is_upcoming(known.now)
        }
    verdicts = await loader.load_verdicts(session, scope, [row["id"] for row in rows])
    speakers = await _speaker_ids(access, {row["speaker"] for row in rows if row["speaker"]})
    items = [
        EvidenceResponse.model_validate(
            {
                **row,
                "verdicts": verdicts.get(row["id"], {}),
                "speaker_id": speakers.get(row["speaker"]),
                # A span that was moved may begin inside a character.
                "quote": row["quote"].decode(errors="replace"),
                "claims": [
                    ClaimResponse(
                        property=name,
                        value=value,
                        holds=(name, row["id"]) in holding,
                        upcoming=row["id"] in upcoming,
                    )
                    for name, value in row["claims"].items()
                ],
                "as_of": known_date(row["as_of"]),
            }
        )
        for row in rows
    ]
    return Page(items=items, next=following)


async def _speaker_ids(access: AgentAccess, names: Collection[str]) -> dict[str, UUID]:
    """The nodes of these names, by name; without names that several nodes have."""
    if not names:
        return {}
    statement = select(NAME_IN_SMALL, GraphNode.id).where(
        GraphNode.agent_id == access.scope.owned_agent_id(),
        NAME_IN_SMALL.in_([name.lower() for name in names]),
    )
    by_name: defaultdict[str, list[UUID]] = defaultdict(list)
    for name, node_id in await access.session.execute(statement):
        by_name[name].append(node_id)
    return {name: found[0] for name in names if len(found := by_name[name.lower()]) == 1}


async def load_agreement(
    access: AgentAccess, kind: ElementKind, element_id: UUID
) -> dict[str, AgreementResponse]:
    """Which origins support each property of a node or edge, and what others say."""
    columns = (
        *(Evidence.id, Evidence.claims, Evidence.as_of, Evidence.learned_at),
        *(Source.retracted_at.is_not(None), Source.url, Evidence.valid_from, Source.published),
        *(Evidence.valid_to, Evidence.speaker, Agent.barred_domains, Source.reading[ORIGIN_KEY]),
        *(_QUOTE, Agent.archive_date, func.statement_timestamp()),
    )
    statement = (
        select(*columns)
        .join(Source, Source.id == Evidence.source_id)
        .join(Agent, Agent.id == Evidence.agent_id)
        .where(
            Evidence.agent_id == access.scope.owned_agent_id(),
            getattr(Evidence, kind.evidence_column) == element_id,
        )
    )
    rows = list(await access.session.execute(statement))
    if not rows:
        return {}
    origins = find_origins({Publication.from_json(row.url, row[-4]) for row in rows})
    quotes = {row.id: row[-3].decode(errors="replace") for row in rows}
    *_, archive_date, moment = rows[0]
    claims = (
        (
            Claim(
                *(evidence_id, values, as_of, learned_at, is_retracted, url),
                is_dated_by_reading(as_of, valid_from, published),
                *(valid_from, valid_to, published, speaker),
            ),
            origins[url],
        )
        for evidence_id, values, as_of, learned_at, is_retracted, url, valid_from, published, valid_to, speaker, *_ in rows
    )
    found = agreements(claims, AgentClock(moment, archive_date).now)
    domains = DomainPreferences(barred=rows[0].barred_domains)
    allowed = domains.allowed_sites(row.url for row in rows if not row[4])
    return {
        name: AgreementResponse(
            sites=(sites := sites_of(each.origins)),
            origins=[list(origin.sites) for origin in each.origins],
            said_by=said_by(each.origins),
            barred=[site for site in sites if site not in allowed],
            others=[
                OtherValueResponse(
                    value=other.value,
                    sites=sites_of(other.origins),
                    origins=len(other.origins),
                    as_of=other.as_of,
                    contested=other.is_contested,
                    said_by=said_by(other.origins),
                )
                for other in each.others
            ],
            upcoming=[
                UpcomingValueResponse(
                    value=coming.value,
                    begins=coming.begins,
                    evidence_id=coming.claim.evidence_id,
                    url=coming.claim.url,
                    quote=quotes[coming.claim.evidence_id],
                )
                for coming in each.upcoming
            ],
            begins=each.begins,
            ended=each.ended,
        )
        for name, each in found.items()
    }


async def list_sources(
    access: OwnedAgent,
    page_request: PageQuery,
    url: Annotated[
        str | None, Query(max_length=2000, description="Only versions of the page at this address")
    ] = None,
    retracted: Annotated[
        bool | None, Query(description="Only retracted sources (true), or only others (false)")
    ] = None,
) -> Page[SourceResponse]:
    """Lists sources by the time of fetching, newest first, without their text. A changed page is another source."""
    statement = select(*columns_of(Source, SourceResponse, **_COMPUTED)).where(
        Source.agent_id == access.scope.owned_agent_id()
    )
    if url is not None:
        statement = statement.where(Source.url == url)
    if retracted is not None:
        statement = statement.where(Source.retracted_at.is_not(None) == retracted)
    return await read_page(access.session, SourceResponse, statement, _SOURCES, page_request)


async def list_checks(
    access: OwnedAgent,
    page_request: PageQuery,
    failed: Annotated[
        bool | None, Query(description="Only failed checks (true), or only others (false)")
    ] = None,
) -> Page[PageCheckResponse]:
    """Lists the last checks of the pages and feeds that the agent watches for changes, by address."""
    statement = select(*columns_of(PageProbe, PageCheckResponse)).where(
        PageProbe.agent_id == access.scope.owned_agent_id()
    )
    if failed is not None:
        statement = statement.where(PageProbe.error.is_not(None) == failed)
    return await read_page(access.session, PageCheckResponse, statement, _CHECKS, page_request)


async def get_source(access: AgentAccess, source_id: UUID) -> SourceDetails:
    """Returns the source with its text. Raises NotFoundError."""
    statement = select(*columns_of(Source, SourceDetails, **_COMPUTED)).where(
        Source.agent_id == access.scope.owned_agent_id(), Source.id == source_id
    )
    source = await read_one(access.session, SourceDetails, statement)
    if source is None:
        raise NotFoundError("source", source_id)
    return source


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
    access: AgentAccess, evidence_ids: Collection[UUID]
) -> dict[UUID, tuple[str, str]]:
    """The text before and after each quote, up to _CONTEXT_BYTES each."""
    if not evidence_ids:
        return {}
    params = {**access.scope.sql_params, "ids": list(evidence_ids), "size": _CONTEXT_BYTES}
    # A cut may be within a character.
    return {
        evidence_id: (bytes(before).decode(errors="ignore"), bytes(after).decode(errors="ignore"))
        for evidence_id, before, after in await access.session.execute(_CONTEXTS, params)
    }


MAX_QUOTE_HIGHLIGHTS: Final = 500


async def list_quote_highlights(access: AgentAccess, source_id: UUID) -> QuoteHighlights:
    """Returns the quotes of a source by position, at most MAX_QUOTE_HIGHLIGHTS."""
    names = {
        "evidence_id": Evidence.id,
        "element_id": func.coalesce(Evidence.node_id, Evidence.edge_id),
        "is_of_edge": Evidence.node_id.is_(None),
    }
    of_agent = Evidence.agent_id == access.scope.owned_agent_id()
    rows = await access.session.execute(
        select(*columns_of(Evidence, QuoteHighlight, **names))
        .where(of_agent, Evidence.source_id == source_id)
        .order_by(Evidence.first_byte, Evidence.end_byte, Evidence.id)
        .limit(MAX_QUOTE_HIGHLIGHTS + 1)
    )
    found = rows.mappings().all()
    visible = found[:MAX_QUOTE_HIGHLIGHTS]
    ids = [row["element_id"] for row in visible if row["element_id"] is not None]
    known = await labels.load_labels(access.session, access.scope, ids)
    items = [
        QuoteHighlight(
            **row,
            kind="edge" if row["is_of_edge"] else "node",
            type=known[row["element_id"]].type,
            name=known[row["element_id"]].name,
        )
        for row in visible
        if row["element_id"] in known
    ]
    return QuoteHighlights(items=items, cut=len(found) > MAX_QUOTE_HIGHLIGHTS)


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


async def list_pages(access: AgentAccess) -> list[ListedPage]:
    """Lists the pages of the MAX_LISTED_SOURCES sources that were fetched last, most recently fetched first."""
    limits = {"most": MAX_LISTED_SOURCES, "counted": MAX_COUNTED_QUOTES}
    rows = await access.session.execute(_PAGES, {**access.scope.sql_params, **limits})
    return [ListedPage(*row) for row in rows]


_PAGES: Final = text(f"""
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
""")


async def list_retractions(
    access: OwnedAgent,
    page_request: PageQuery,
    active: Annotated[
        bool | None, Query(description="Only active ones (true), or only restored ones (false)")
    ] = None,
    source: Annotated[
        str | None, Query(min_length=1, description="Only retractions of this URL or source id")
    ] = None,
) -> Page[RetractionResponse]:
    """Lists retractions, newest first."""
    statement = _retractions(access)
    if active is not None:
        statement = statement.where(Retraction.restored_at.is_(None) == active)
    if source is not None:
        if (source_id := parse_id(source)) is None:
            covers = coverage.covering(source)
            statement = statement.where(
                or_(Retraction.url == source, Retraction.covers.in_(covers))
            )
        else:
            of_source = select(RetractedSource.retraction_id).where(
                RetractedSource.source_id == source_id
            )
            statement = statement.where(Retraction.id.in_(of_source))
    return await read_page(
        access.session, RetractionResponse, statement, _RETRACTIONS, page_request
    )


async def get_retraction(access: AgentAccess, retraction_id: UUID) -> RetractionResponse:
    """Returns the retraction. Raises NotFoundError."""
    statement = _retractions(access).where(Retraction.id == retraction_id)
    retraction = await read_one(access.session, RetractionResponse, statement)
    if retraction is None:
        raise NotFoundError("retraction", retraction_id)
    return retraction


def _retractions(access: AgentAccess) -> Select[*tuple[Any, ...]]:
    of_retraction = RetractedSource.retraction_id == Retraction.id
    through = func.coalesce(RetractedSource.through, FIRST_CURSOR)
    sources = select(func.count()).where(of_retraction)
    left = (
        select(func.count(Evidence.id))
        .join(RetractedSource, RetractedSource.source_id == Evidence.source_id)
        .where(of_retraction, RetractedSource.is_due, Evidence.id > through)
    )

    def in_doubt(type_name: str) -> ScalarSelect[int]:
        return (
            select(func.count(Doubt.conclusion_id.distinct()))
            .join(RetractedSource, RetractedSource.source_id == Doubt.source_id)
            .join(GraphNode, GraphNode.id == Doubt.conclusion_id)
            .where(of_retraction, Doubt.resolved_at.is_(None), GraphNode.type == type_name)
            .correlate(Retraction)
            .scalar_subquery()
        )

    columns = columns_of(
        Retraction,
        RetractionResponse,
        site=func.substring(Retraction.covers, coverage.SITE_PATTERN),
        is_pending=Retraction.due_at.is_not(None),
        left=left.correlate(Retraction).scalar_subquery(),
        sources=sources.correlate(Retraction).scalar_subquery(),
        analyses=in_doubt(ANALYSIS_TYPE),
        advice=in_doubt(ADVICE_TYPE),
    )
    return select(*columns).where(Retraction.agent_id == access.scope.owned_agent_id())


class HashesResponse(ResponseModel):
    """Hashes in hex."""

    seal: str | None
    """The integrity hash of the row; None for rows from before integrity hashes existed."""
    text_sha256: str | None
    """The hash of a source's text or of a quote's bytes; None for other elements."""


def _hashes_sql(table: str, text_hash: str) -> str:
    return (
        f"select id, encode(seal, 'hex') as seal, {text_hash} as text_sha256 from {table}"
        f" where id = any(cast(:ids as uuid[])) and agent_id = {OWNED_AGENT_ID_SQL}"
    )


_HASHES: Final = text(
    " union all ".join(
        (
            _hashes_sql("graph_nodes", "null"),
            _hashes_sql("graph_edges", "null"),
            _hashes_sql("evidence", "encode(quote_sha256, 'hex')"),
            _hashes_sql("sources", "encode(sha256, 'hex')"),
        )
    )
)


async def hashes_of_links(access: AgentAccess, ids: Collection[UUID]) -> dict[UUID, HashesResponse]:
    """Returns the hashes of those nodes, edges, quotes and sources that belong to the owner's agent."""
    params = {**access.scope.sql_params, "ids": list(ids)}
    rows = await access.session.execute(_HASHES, params)
    return {row.id: HashesResponse.model_validate(row) for row in rows}
