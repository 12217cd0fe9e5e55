"""Values that are no more than claims: every page that has them quotes someone for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, uuid_array
from shared.graph.provenance.speakers import unify
from shared.graph.provenance.verdicts import is_not_refused_sql
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.tools.readings import EXISTS

Claimed = Mapping[str, Sequence[str]]
"""Speakers by property; of an edge, those who say that it exists stand under EXISTS."""
_MAX_SPEAKERS: Final = 3
_MAX_PROPERTIES: Final = 8


def claimed_sql(kind: Literal["node", "edge"]) -> str:
    """SQL expression: the `Claimed` of a row `element` of nodes or edges as JSON; null if pages state everything themselves.

    A page that quotes a speaker for a value does not state it, also where it repeats it without them.
    """
    existence = f"union all select '{EXISTS}', null" if kind == "edge" else ""
    return f"""
case when exists (select from evidence where {kind}_id = element.id and speaker is not null) then (
  select jsonb_object_agg(key, speakers) from (
    select key, jsonb_agg(distinct speaker) as speakers from (
      select claim.key, speaker, bool_or(speaker is not null) over (partition by claim.key, url) as is_spoken
      from evidence join sources on sources.id = source_id and retracted_at is null
      cross join lateral (select key, value from jsonb_each(claims) {existence}) as claim
      where {kind}_id = element.id and (claim.value is null or element.properties -> claim.key = claim.value)
        and {is_not_refused_sql("claim.key")}
    ) as said where speaker is not null or not is_spoken
    group by key having bool_and(speaker is not null)
  ) as claimed
) end
"""


_CLAIMED: Final = CompiledStatement(
    " union all ".join(
        f"select id, {claimed_sql(kind)} as claimed from graph_{kind}s as element"
        f" where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))"
        for kind in ("node", "edge")
    )
)


def claimed_query(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[Mapping[UUID, Claimed]]:
    """What is only claimed of the nodes and edges with these ids; without those of which nothing is."""
    params = {**scope.sql_params, "ids": uuid_array(ids)}
    return BoundQuery(
        _CLAIMED, params, lambda rows: {row.id: row.claimed for row in rows if row.claimed}
    )


def says(claimed: Claimed | None) -> str:
    """`Jane Roe says output, costs`; empty if nothing is only claimed."""
    by_speakers: dict[tuple[str, ...], list[str]] = {}
    for name, speakers in (claimed or {}).items():
        names = tuple(sorted(set(unify(speakers).values())))
        by_speakers.setdefault(names, []).append(name or "so")
    return "; ".join(
        f"{_listed(names, _MAX_SPEAKERS)} {'says' if len(names) == 1 else 'say'} {_listed(said, _MAX_PROPERTIES)}"
        for names, said in by_speakers.items()
    )


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])
