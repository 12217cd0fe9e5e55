"""What contexts show beside the values of nodes and edges: contested, upcoming and ended ones, in one short form."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Row, uuid_array
from shared.domains import site_of
from shared.graph.prompt_format import json_line, shown_date, truncate_text
from shared.graph.provenance.agreement import SAME_TIME, Agreement, agreements
from shared.graph.provenance.claims import UNKNOWN_DATE_SQL, Claim
from shared.graph.provenance.origins import ORIGIN_KEY, Origin, Publication, find_origins
from shared.graph.provenance.validity import last_moment
from shared.graph.provenance.verdicts import COUNTS_SQL, STATED_SQL
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.workflow.agent_clock import NOW_SQL

MAX_EVIDENCE: Final = 20
"""The evidence of an element that is compared: what begins last, or is the newest."""
_SUMMARY: Final = "summary"
"""The property that says what a node is, in words that say of what time they are."""
_VALUE_CHARS: Final = 40
_MAX_VALUES: Final = 3
"""Contested values of a property, and upcoming ones."""

# Compared with the newest evidence that states the present value of the same property. Of most elements nothing needs to be
# sent.
_HAS_BESIDE_SQL: Final = f"""
  select bool_and(valid_from > {NOW_SQL} or valid_to <= {NOW_SQL}) is true or bool_or(key <> '{_SUMMARY}' and (
    valid_from > {NOW_SQL}
    or is_current and valid_to <= {NOW_SQL}
    or not is_current and (
      as_of = {UNKNOWN_DATE_SQL} or valid_to is not null or current_said is null
      or said > current_said - interval '{SAME_TIME.days} day')))
  from (
    select *, max(said) filter (where is_current) over (partition by key) as current_said
    from (
      select held.*, key, value = {{properties}} -> key as is_current
      from ({{held}}) as held left join lateral jsonb_each(claims) as claim (key, value) on true
    ) as stated
  ) as compared
"""


Column = Literal["node_id", "edge_id"]
_TABLES: Final[Mapping[Column, str]] = {"node_id": "graph_nodes", "edge_id": "graph_edges"}


def _held_sql(column: Column, element: str) -> str:
    """The evidence whose values are compared."""
    return f"""
  select evidence.id, stated_claims as claims, as_of, learned_at, valid_from, valid_to, speaker, source_id, url, published,
    greatest(as_of, valid_from, published) as said
  from evidence join sources on sources.id = source_id {STATED_SQL}
  where {column} = {element}.id and retracted_at is null and {COUNTS_SQL}
  order by greatest(as_of, valid_from) desc limit {MAX_EVIDENCE}
"""


def beside_sql(column: Column, element: str, properties: str) -> str:
    """A LATERAL subquery with the column `stated`, for `stated_beside`; null where nothing stands beside.

    `element` is an alias with `id`, and `properties` the SQL of its properties. Takes the parameters of a scope.
    """
    held = _held_sql(column, element)
    has_beside = _HAS_BESIDE_SQL.format(properties=properties, held=held)
    return f"""(
      select jsonb_agg(jsonb_build_array(
        held.id, claims, as_of, learned_at, held.url, valid_from, valid_to, held.published, reading -> '{ORIGIN_KEY}',
        speaker, {NOW_SQL})) as stated
      from ({held}) as held join sources on sources.id = held.source_id
      where ({has_beside})
    )"""


_LOAD: Final = {
    column: CompiledStatement(f"""
select element.id, properties, stated from {table} as element
cross join lateral {beside_sql(column, "element", "element.properties")} as beside
where element.id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL} and stated is not null
""")
    for column, table in _TABLES.items()
}


def beside_query(
    scope: GraphScope,
    column: Column,
    ids: Iterable[UUID],
    properties: Mapping[UUID, Collection[str]] | None = None,
) -> BoundQuery[dict[UUID, str]]:
    """What stands beside the values of nodes (`node_id`) or edges (`edge_id`), by id; without those where nothing does. If
    `properties` are given by id, only beside these.
    """

    def read(rows: Sequence[Row]) -> dict[UUID, str]:
        found = {
            row.id: stated_beside(
                row.stated, row.properties if properties is None else properties[row.id]
            )
            for row in rows
        }
        return {element_id: text for element_id, text in found.items() if text}

    return BoundQuery(_LOAD[column], {**scope.sql_params, "ids": uuid_array(ids)}, read)


def stated_beside(stated: Sequence[Any] | None, shown: Collection[str]) -> str:
    """What stands beside the `shown` properties, in the short form; empty if nothing does."""
    if not stated:
        return ""
    now = datetime.fromisoformat(stated[0][-1])
    claims = [_claim(each) for each in stated]
    # Sites first, because comparing texts is slow: origins are sites at least, so that no more is contested by them.
    by_site = {claim.url: Origin((site_of(claim.url),)) for claim in claims}
    found = _shown(agreements(((claim, by_site[claim.url]) for claim in claims), now), shown)
    if any(each.contested for each in found.values()):
        pages = {each[4]: Publication.from_json(each[4], each[8]) for each in stated}
        origins = find_origins(pages.values())
        found = _shown(agreements(((claim, origins[claim.url]) for claim in claims), now), shown)
    if any(claim.holds(now) for claim in claims):
        return beside(found)
    of_values = {name: replace(each, begins=None, ended=None) for name, each in found.items()}
    return "; ".join(filter(None, [_validity(claims, now), beside(of_values)]))


def _shown(found: Mapping[str, Agreement], shown: Collection[str]) -> Mapping[str, Agreement]:
    return {name: each for name, each in found.items() if name in shown and name != _SUMMARY}


def _validity(claims: Sequence[Claim], now: datetime) -> str:
    """The validity of an element of which nothing holds now."""
    ends = [claim.valid_to for claim in claims if claim.valid_to and claim.has_ended(now)]
    if ends:
        return f"ended {last_moment(max(ends)):%Y-%m-%d}"
    return f"only from {min(claim.since for claim in claims):%Y-%m-%d}"


def _claim(values: Sequence[Any]) -> Claim:
    evidence_id, claims, as_of, learned_at, url, *rest = values
    valid_from, valid_to, published = map(_moment, rest[:3])
    return Claim(
        UUID(evidence_id),
        claims,
        datetime.fromisoformat(as_of),
        datetime.fromisoformat(learned_at),
        url=url,
        valid_from=valid_from,
        valid_to=valid_to,
        published=published,
        speaker=rest[4],
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def beside(found: Mapping[str, Agreement]) -> str:
    """The short form: `contested price: 5 (1 origin, 2026-11-28) or 6 (2 origins, undated); tariff from 2027-01-01: 5`."""
    parts = []
    for name, each in sorted(found.items()):
        if each.contested:
            values = [_side(each.value, each.origins, each.as_of)]
            values += [
                _side(other.value, other.origins, other.as_of)
                for other in each.contested[:_MAX_VALUES]
            ]
            parts.append(f"contested {name}: {' or '.join(values)}")
        if each.ended:
            parts.append(f"{name} ended {last_moment(each.ended):%Y-%m-%d}")
        if each.begins:
            parts.append(f"{name} only from {each.begins:%Y-%m-%d}")
        parts += [
            f"{name} from {coming.begins:%Y-%m-%d}: {_short(coming.value)}"
            for coming in each.upcoming[:_MAX_VALUES]
        ]
    return "; ".join(parts)


def _side(value: Any, origins: Sequence[Origin], as_of: datetime | None) -> str:
    count = f"{len(origins)} origin{'' if len(origins) == 1 else 's'}"
    return f"{_short(value)} ({count}, {shown_date(as_of and as_of.date())})"


def _short(value: Any) -> str:
    return truncate_text(json_line(value), _VALUE_CHARS)
