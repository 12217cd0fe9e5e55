"""What conclusions rest on: the elements that they cite, and those that cited analyses cite."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, uuid_array
from shared.domains import DomainPreferences
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import CITATION_SQL, CitedElements, Kind, parse_citations
from shared.graph.conclusions.subjects import SubjectNode
from shared.graph.entity_resolution.redirects import IS_MERGED_AWAY_SQL, MAX_CHAIN_LENGTH
from shared.graph.grounding.known import CitedElement
from shared.graph.provenance.claims import UNKNOWN_DATE_SQL
from shared.graph.provenance.origins import ORIGIN_KEY, Origin, Publication, find_origins
from shared.graph.retraction.doubts import IS_DOUBTED_SQL
from shared.graph.scope import IS_OWNED_SQL, IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.urls import page_key, urls_in

_CLAIMS_SQL: Final = f"""
  (select coalesce(jsonb_agg(jsonb_build_array(claims, nullif(as_of, {UNKNOWN_DATE_SQL}), valid_from, valid_to)
     order by as_of desc, learned_at desc, evidence.id), '[]')
   from evidence where evidence.{{column}} = element.id)
"""
_PAGES_SQL: Final = f"""
  (select coalesce(jsonb_agg(distinct jsonb_build_array(url, reading -> '{ORIGIN_KEY}')), '[]')
   from evidence join sources on sources.id = source_id
   where evidence.{{column}} = element.id and retracted_at is null)
"""
_NAMES_SQL: Final = """
  array(select names.name from graph_names as names where names.node_id = {node}.id order by names.name)
"""
_CITED: Final = CompiledStatement(f"""
with recursive cited (id) as (
  select unnest(cast(:ids as uuid[]))
), below (id) as (
  select id from cited
  union
  select cast(match[1] as uuid) from graph_nodes,
    regexp_matches(concat_ws(' ', properties ->> 'content', properties ->> 'summary'), :citation, 'gi') as match
  where {IS_OWNED_SQL} and id in (select id from cited) and type = '{ANALYSIS_TYPE}'
), moves (cited_id, id, length) as (
  select below.id, move.kept_id, 1 from below join graph_redirects as move on move.merged_id = below.id
  where agent_id = {OWNED_AGENT_ID_SQL} and {IS_MERGED_AWAY_SQL}
  union all
  select cited_id, move.kept_id, length + 1 from graph_redirects as move, moves
  where agent_id = {OWNED_AGENT_ID_SQL} and move.merged_id = moves.id and {IS_MERGED_AWAY_SQL}
    and length < {MAX_CHAIN_LENGTH}
), elements (cited_id, id) as (
  select id, coalesce((select moves.id from moves where cited_id = below.id order by length desc limit 1), id)
  from below
)
select elements.cited_id, element.id, '{Kind.NODE}' as kind, element.type, element.properties,
  element.is_supported, element.is_doubted,
  element.name || {_NAMES_SQL.format(node="element")} as names, {_CLAIMS_SQL.format(column="node_id")} as claims,
  {_PAGES_SQL.format(column="node_id")} as pages, cast(null as jsonb) as ends
from elements join (
  select id, type, name, properties, {IS_SUPPORTED_SQL} as is_supported, {IS_DOUBTED_SQL} as is_doubted
  from graph_nodes where {IS_OWNED_SQL} and id in (select id from elements)
) as element on element.id = elements.id
union all
select elements.cited_id, element.id, '{Kind.EDGE}', element.type, element.properties,
  element.is_supported, element.is_doubted,
  source.name || {_NAMES_SQL.format(node="source")} || target.name || {_NAMES_SQL.format(node="target")},
  {_CLAIMS_SQL.format(column="edge_id")}, {_PAGES_SQL.format(column="edge_id")},
  jsonb_build_array(jsonb_build_array(source.id, source.name), jsonb_build_array(target.id, target.name))
from elements join (
  select id, type, source_id, target_id, properties, {IS_SUPPORTED_SQL} as is_supported, false as is_doubted
  from graph_edges where {IS_OWNED_SQL} and id in (select id from elements)
) as element on element.id = elements.id
join graph_nodes as source on source.id = element.source_id
join graph_nodes as target on target.id = element.target_id
order by 1
""")


@dataclass(frozen=True)
class _Cited:
    id: UUID
    kind: Kind
    is_supported: bool
    is_doubted: bool
    properties: Mapping[str, Any]
    element: CitedElement
    pages: tuple[Publication, ...]
    """Those that support it, without retracted ones."""
    ends: Sequence[tuple[str, str]]
    """Id and name of both ends of an edge."""


class Basis:
    """What some conclusions rest on."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._cited = {row.cited_id: _read(row) for row in rows}

    @cached_property
    def cited(self) -> CitedElements:
        """By the ids by which they are cited."""
        nodes = {key: each for key, each in self._cited.items() if each.kind is Kind.NODE}
        return CitedElements(
            {cited_id: each.element.type for cited_id, each in nodes.items()},
            self._cited.keys() - nodes.keys(),
            {cited_id for cited_id, each in self._cited.items() if not each.is_supported},
            {cited_id for cited_id, each in self._cited.items() if each.is_doubted},
        )

    def current_ids(self, cited_ids: Iterable[UUID]) -> set[UUID]:
        """The ids of the cited elements, of which some may be cited by the id that they had before a merge."""
        return {self._cited[key].id for key in cited_ids if key in self._cited}

    def elements(self, cited_ids: Sequence[UUID]) -> list[CitedElement]:
        """The elements that a conclusion with these citations rests on, each once."""
        return [each.element for each in self._rests_on(cited_ids)]

    def subjects(self, cited_ids: Sequence[UUID]) -> list[SubjectNode]:
        """The nodes below a conclusion with these citations that are no conclusions themselves, and the ends of edges."""
        found: dict[UUID, _Cited] = {}
        pending = list(cited_ids)
        for key in pending:
            each = self._cited.get(key)
            if each is None or each.id in found:
                continue
            found[each.id] = each
            if each.element.type == ANALYSIS_TYPE:
                pending += parse_citations(*_texts(each.properties)).ids()
        elements = list(found.values())
        nodes = [
            SubjectNode(each.id, each.element.names)
            for each in elements
            if each.kind is Kind.NODE and each.element.type not in (ANALYSIS_TYPE, ADVICE_TYPE)
        ]
        ends = {UUID(end): name for each in elements for end, name in each.ends}
        return [*nodes, *(SubjectNode(end, (name,)) for end, name in ends.items())]

    def origins(self, cited_ids: Sequence[UUID], domains: DomainPreferences) -> frozenset[Origin]:
        """The origins of the pages that a conclusion with these citations rests on, without pages of barred domains."""
        pages = {page for each in self._rests_on(cited_ids) for page in each.pages}
        allowed = [page for page in pages if domains.barring(page.url) is None]
        return frozenset(find_origins(allowed).values())

    def unknown_addresses(self, cited_ids: Sequence[UUID], text: str) -> list[str]:
        """The addresses in `text` that are not those of pages that a conclusion with these citations rests on."""
        pages = {page_key(page.url) for each in self._rests_on(cited_ids) for page in each.pages}
        return [url for url in urls_in(text) if page_key(url) not in pages]

    def _rests_on(self, cited_ids: Sequence[UUID]) -> Iterable[_Cited]:
        found: dict[UUID, _Cited] = {}
        for each in (self._cited[key] for key in cited_ids if key in self._cited):
            found[each.id] = each
            if each.element.type != ANALYSIS_TYPE:
                continue
            for key in parse_citations(*_texts(each.properties)).ids():
                if (below := self._cited.get(key)) is not None:
                    found[below.id] = below
        return found.values()


def basis_query(scope: GraphScope, cited_ids: Iterable[UUID]) -> BoundQuery[Basis]:
    """What conclusions that cite these ids rest on. An element that was merged may be cited by its old id."""
    params = {**scope.sql_params, "ids": uuid_array(cited_ids), "citation": CITATION_SQL}
    return BoundQuery(_CITED, params, Basis)


def _read(row: Any) -> _Cited:
    kind = Kind(row.kind)
    values = list(row.properties.items())
    dates: dict[str, None] = {}
    for claims, *moments in row.claims:
        values += [item for item in claims.items() if item not in values]
        dates |= dict.fromkeys(moment for moment in moments if moment)
    names = tuple(dict.fromkeys(row.names))
    element = CitedElement(row.type, names, tuple(values), tuple(dates), kind is Kind.EDGE)
    return _Cited(
        row.id,
        kind,
        row.is_supported,
        row.is_doubted,
        row.properties,
        element,
        tuple(Publication.from_json(*page) for page in row.pages),
        row.ends or (),
    )


def _texts(properties: Mapping[str, Any]) -> list[str]:
    return [str(properties.get(key, "")) for key in ("content", "summary")]
