"""The evidence that a model is to compare with what it supports, and its verdicts: see decision 0045."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Row, uuid_array
from shared.enums import Entailment
from shared.graph.entity_resolution.redirects import IS_MERGED_AWAY_SQL
from shared.graph.grounding.quotes import last_moment
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope

MAX_REASON_CHARS: Final = 400
_LARGEST_ID: Final = 2**128 - 1


@dataclass(frozen=True)
class Quotation:
    """A piece of evidence in words."""

    evidence_id: UUID
    claim: str
    """The node or edge, and the values that the quote supports."""
    quote: str
    title: str
    """Of the page; empty if it has none."""


_IS_UNCHECKED: Final = """
sources.retracted_at is null
and not exists (select from entailment_verdicts where evidence_id = evidence.id)
"""


def _quotations(chosen_sql: str) -> CompiledStatement:
    """`chosen_sql` defines the common table expression `chosen (id)`, of ids of evidence."""
    return CompiledStatement(f"""
with recursive {chosen_sql}
select evidence.id, evidence.claims, evidence.valid_from, evidence.valid_to, sources.title,
  substring(convert_to(sources.text, 'UTF8'), first_byte + 1, end_byte - first_byte) as quote,
  coalesce(node.type, edge.type) as type, coalesce(node.name, subject.name) as name, object.name as object_name
from chosen join evidence using (id) join sources on sources.id = evidence.source_id
left join graph_nodes as node on node.id = evidence.node_id
left join graph_edges as edge on edge.id = evidence.edge_id
left join graph_nodes as subject on subject.id = edge.source_id
left join graph_nodes as object on object.id = edge.target_id
where {_IS_UNCHECKED}
order by evidence.id
""")


# The ids are hashes, so those below a bound are a random sample, and the same one when the step is resumed.
_OF_STEP: Final = _quotations(f"""
chosen as (
  select id from evidence
  where step_id = :of_step and id <= :bound and (agent_id = {OWNED_AGENT_ID_SQL}) is true
)
""")
# As verification walks: what is cited, what cited analyses cite, and the ends of edges. Only what supports a current value.
_OF_CONCLUSIONS: Final = _quotations(f"""
reached (id) as (
  select unnest(cast(:ids as uuid[]))
  union
  select next.id from reached cross join lateral (
    select cited_id as id from citations where conclusion_id = reached.id
    union all
    select kept_id from graph_redirects as move
    where agent_id = {OWNED_AGENT_ID_SQL} and merged_id = reached.id and {IS_MERGED_AWAY_SQL}
    union all
    select unnest(array[source_id, target_id]) from graph_edges where graph_edges.id = reached.id
  ) as next
), elements (id, properties, column_name) as (
  select id, properties, 'node' from graph_nodes
  where agent_id = {OWNED_AGENT_ID_SQL} and id in (select id from reached)
  union all
  select id, properties, 'edge' from graph_edges
  where agent_id = {OWNED_AGENT_ID_SQL} and id in (select id from reached)
), chosen as (
  select found.id from elements cross join lateral (
    select id, claims from evidence where column_name = 'node' and node_id = elements.id
    union all
    select id, claims from evidence where column_name = 'edge' and edge_id = elements.id
  ) as found
  where found.claims = '{{}}' or exists (
    select from jsonb_each(found.claims) as claim where elements.properties -> claim.key = claim.value)
)
""")
_STORE: Final = CompiledStatement("""
insert into entailment_verdicts (evidence_id, agent_id, verdict, reason, model, call_id, step_id, due_at)
select id, agent_id, :verdict, :reason, :model, :call_id, :of_step,
  case when cast(:verdict as text) = :contradicted then clock_timestamp() end
from evidence where id = :evidence_id and agent_id = :of_agent
on conflict do nothing
""")


def new_evidence(scope: GraphScope, share: float) -> BoundQuery[Sequence[Quotation]]:
    """A sample of what the step has written, as a share of 0 to 1; without what has a verdict."""
    params = {
        **scope.sql_params,
        "of_step": scope.step_id,
        "bound": UUID(int=min(int(share * _LARGEST_ID), _LARGEST_ID)),
    }
    return BoundQuery(_OF_STEP, params, _read)


def evidence_below(
    scope: GraphScope, conclusions: Iterable[UUID]
) -> BoundQuery[Sequence[Quotation]]:
    """All that supports a current value on which these conclusions rest; without what has a verdict."""
    params = {**scope.sql_params, "ids": uuid_array(conclusions)}
    return BoundQuery(_OF_CONCLUSIONS, params, _read)


def store_verdict(
    scope: GraphScope,
    evidence_id: UUID,
    verdict: Entailment,
    reason: str,
    *,
    model: str,
    call_id: UUID,
) -> BoundQuery[None]:
    """Stores the verdict, unless there is one, or the evidence was merged into other evidence meanwhile."""
    params = {
        "of_agent": scope.agent_id,
        "of_step": scope.step_id,
        "evidence_id": evidence_id,
        "verdict": verdict,
        "reason": reason[:MAX_REASON_CHARS],
        "model": model,
        "call_id": call_id,
        "contradicted": Entailment.CONTRADICTED,
    }
    return BoundQuery(_STORE, params, lambda _: None)


def _read(rows: Sequence[Row]) -> list[Quotation]:
    return [
        Quotation(
            row.id,
            _claim(row.type, [row.name, row.object_name], row.claims)
            + _validity(row.valid_from, row.valid_to),
            bytes(row.quote).decode(errors="replace"),
            row.title or "",
        )
        for row in rows
    ]


def _claim(type_name: str, names: Sequence[str | None], values: Mapping[str, Any]) -> str:
    subject, *objects = [json.dumps(name, ensure_ascii=False) for name in names if name]
    text = f"{subject} {type_name} {objects[0]}" if objects else f"{type_name} {subject}"
    if not values:
        return f"{text}, which exists" if not objects else text
    listing = "; ".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()
    )
    return f"{text}: {listing}"


def _validity(valid_from: datetime | None, valid_to: datetime | None) -> str:
    parts = [
        f"{word} {moment:%Y-%m-%d}"
        for word, moment in (("from", valid_from), ("until", last_moment(valid_to)))
        if moment is not None
    ]
    return f" ({' '.join(parts)})" if parts else ""
