"""What conclusions rest on: the elements that they cite, and those that cited analyses cite."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, uuid_array
from shared.domains import DomainPreferences
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import CITATION_SQL, CitedElements, Kind, parse_citations
from shared.graph.conclusions.figures import CitedElement
from shared.graph.conclusions.proofs import ProvableElement, Quote
from shared.graph.conclusions.subjects import SubjectNode
from shared.graph.entity_resolution.redirects import IS_MERGED_AWAY_SQL, MAX_CHAIN_LENGTH
from shared.graph.provenance.claims import UNKNOWN_DATE_SQL
from shared.graph.provenance.integrity import is_equal
from shared.graph.provenance.origins import (
    ORIGIN_KEY,
    Origin,
    Publication,
    find_origins,
    join_speakers,
)
from shared.graph.provenance.verdicts import VERDICTS_SQL
from shared.graph.scope import (
    IS_DOUBTED_SQL,
    IS_OWNED_SQL,
    IS_SUPPORTED_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.graph.types import RESERVED_TYPES
from shared.urls import page_key, urls_in


def _quotes_sql(column: str) -> str:
    return f"""
  (select coalesce(jsonb_agg(jsonb_build_array(
       claims, nullif(as_of, {UNKNOWN_DATE_SQL}), valid_from, valid_to, learned_at, source_id, first_byte, end_byte,
       retracted_at is not null, {VERDICTS_SQL})
     order by as_of desc, learned_at desc, evidence.id), '[]')
   from evidence join sources on sources.id = source_id
   where evidence.{column} = element.id)
"""


_PAGES_SQL: Final = f"""
  (select coalesce(jsonb_agg(distinct jsonb_build_array(url, reading -> '{ORIGIN_KEY}', speaker)), '[]')
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
  element.name || {_NAMES_SQL.format(node="element")} as names, {_quotes_sql("node_id")} as quotes,
  {_PAGES_SQL.format(column="node_id")} as pages, cast(null as jsonb) as ends
from elements join (
  select id, type, name, properties, {IS_SUPPORTED_SQL} as is_supported, {IS_DOUBTED_SQL} as is_doubted
  from graph_nodes where {IS_OWNED_SQL} and id in (select id from elements)
) as element on element.id = elements.id
union all
select elements.cited_id, element.id, '{Kind.EDGE}', element.type, element.properties,
  element.is_supported, element.is_doubted,
  source.name || {_NAMES_SQL.format(node="source")} || target.name || {_NAMES_SQL.format(node="target")},
  {_quotes_sql("edge_id")}, {_PAGES_SQL.format(column="edge_id")},
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
    type: str
    names: tuple[str, ...]
    properties: Mapping[str, Any]
    quotes: tuple[Quote, ...]
    """The newest first."""
    pages: tuple[tuple[Publication, str | None], ...]
    """Those that support it, without retracted ones, each with the speakers whom they quote for it."""
    ends: Sequence[tuple[str, str]]
    """Id and name of both ends of an edge."""

    def element_with(self, quotes: Sequence[Quote]) -> CitedElement:
        """The element as it is with these of its quotes alone."""
        left_out = {name for each in self.quotes if each not in quotes for name in each.claims}
        known = {name for each in quotes for name in each.claims}
        values = [
            (name, value)
            for name, value in self.properties.items()
            if name not in left_out
            or (name in known and any(is_equal(each.claims.get(name), value) for each in quotes))
        ]
        for each in quotes:
            values += [item for item in each.claims.items() if item not in values]
        return CitedElement(self.type, self.names, tuple(values))


class Basis:
    """What some conclusions rest on."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._cited = {row.cited_id: _read(row) for row in rows}

    @cached_property
    def cited(self) -> CitedElements:
        """By the ids by which they are cited."""
        nodes = {key: each for key, each in self._cited.items() if each.kind is Kind.NODE}
        return CitedElements(
            {cited_id: each.type for cited_id, each in nodes.items()},
            self._cited.keys() - nodes.keys(),
            {cited_id for cited_id, each in self._cited.items() if not each.is_supported},
            {cited_id for cited_id, each in self._cited.items() if each.is_doubted},
        )

    def current_ids(self, cited_ids: Iterable[UUID]) -> set[UUID]:
        """The ids of the cited elements, of which some may be cited by the id that they had before a merge."""
        return {self._cited[key].id for key in cited_ids if key in self._cited}

    def provable(
        self, cited_ids: Sequence[UUID], known_at: datetime | None = None
    ) -> list[ProvableElement]:
        """The nodes and edges that a conclusion with these citations rests on, with the quotes that can prove it.

        With `known_at`, the quotes that were known at that time, of pages that are retracted since too.
        """
        above: defaultdict[UUID, set[UUID]] = defaultdict(set)
        for key in cited_ids:
            if (each := self._cited.get(key)) is None:
                continue
            above[each.id].add(key)
            for below_key in parse_citations(*_texts(each.properties)).ids():
                if each.type == ANALYSIS_TYPE and (below := self._cited.get(below_key)):
                    above[below.id].add(key)
        return [
            ProvableElement(
                each.id,
                each.kind,
                " → ".join(name for _, name in each.ends) or each.names[0],
                each.element_with(quotes),
                quotes,
                tuple((UUID(end), name) for end, name in each.ends),
                frozenset(above[each.id]),
            )
            for each in self._rests_on(cited_ids)
            if each.type not in RESERVED_TYPES
            and (quotes := each.quotes if known_at is None else _known(each.quotes, known_at))
        ]

    def subjects(self, cited_ids: Sequence[UUID]) -> list[SubjectNode]:
        """The nodes below a conclusion with these citations that are no conclusions themselves, and the ends of edges."""
        found: dict[UUID, _Cited] = {}
        pending = list(cited_ids)
        for key in pending:
            each = self._cited.get(key)
            if each is None or each.id in found:
                continue
            found[each.id] = each
            if each.type == ANALYSIS_TYPE:
                pending += parse_citations(*_texts(each.properties)).ids()
        elements = list(found.values())
        nodes = [
            SubjectNode(each.id, each.names)
            for each in elements
            if each.kind is Kind.NODE and each.type not in (ANALYSIS_TYPE, ADVICE_TYPE)
        ]
        ends = {UUID(end): name for each in elements for end, name in each.ends}
        return [*nodes, *(SubjectNode(end, (name,)) for end, name in ends.items())]

    def origins(self, cited_ids: Sequence[UUID], domains: DomainPreferences) -> frozenset[Origin]:
        """The origins of the pages that a conclusion with these citations rests on, without pages of barred domains.

        Pages that only quote one speaker are one origin.
        """
        pages = [
            (page, speaker)
            for each in self._rests_on(cited_ids)
            for page, speaker in each.pages
            if domains.barring(page.url) is None
        ]
        origins = find_origins({page for page, _ in pages})
        joined = join_speakers((origins[page.url], speaker) for page, speaker in pages)
        return frozenset(joined.values())

    def unknown_addresses(self, cited_ids: Sequence[UUID], text: str) -> list[str]:
        """The addresses in `text` that are not those of pages that a conclusion with these citations rests on."""
        pages = {page_key(page.url) for each in self._rests_on(cited_ids) for page, _ in each.pages}
        return [url for url in urls_in(text) if page_key(url) not in pages]

    def _rests_on(self, cited_ids: Sequence[UUID]) -> Iterable[_Cited]:
        found: dict[UUID, _Cited] = {}
        for each in (self._cited[key] for key in cited_ids if key in self._cited):
            found[each.id] = each
            if each.type != ANALYSIS_TYPE:
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
    return _Cited(
        row.id,
        Kind(row.kind),
        row.is_supported,
        row.is_doubted,
        row.type,
        tuple(dict.fromkeys(row.names)),
        row.properties,
        tuple(map(_read_quote, row.quotes)),
        tuple((Publication.from_json(url, value), said) for url, value, said in row.pages),
        row.ends or (),
    )


def _read_quote(values: Sequence[Any]) -> Quote:
    claims, as_of, valid_from, valid_to, learned_at, source_id, *rest = values
    return Quote(
        claims,
        as_of,
        valid_from,
        valid_to,
        datetime.fromisoformat(learned_at),
        UUID(source_id),
        *rest,
    )


def _known(quotes: Sequence[Quote], at: datetime) -> tuple[Quote, ...]:
    return tuple(each for each in quotes if each.learned_at <= at)


def _texts(properties: Mapping[str, Any]) -> list[str]:
    return [str(properties.get(key, "")) for key in ("content", "summary")]
