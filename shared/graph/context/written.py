"""Describes the nodes and edges that the queries of an iteration wrote."""

from collections.abc import Sequence
from typing import Final

from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.enums import StepKind
from shared.graph.prompt_format import (
    edge_line,
    json_line,
    node_line,
    shorten_properties,
    truncate_to_budget,
)
from shared.graph.provenance.claims import UNKNOWN_DATE_SQL
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.tools import Json

MAX_ELEMENTS: Final = 80
TOKENS: Final = 1_200
_VALUE_CHARS: Final = 160

_WRITTEN: Final = CompiledStatement(f"""
with wrote as (
  select evidence.node_id, evidence.edge_id, max(learned_at) as at, jsonb_agg(
    jsonb_build_object('claims', claims,
      'as_of', cast(cast(nullif(as_of, {UNKNOWN_DATE_SQL}) at time zone 'utc' as date) as text))
    order by as_of, evidence.id) as evidence
  from steps join evidence on evidence.step_id = steps.id
  where steps.iteration_id = :of_iteration and steps.kind = '{StepKind.QUERY}'
    and (evidence.agent_id = {OWNED_AGENT_ID_SQL}) is true
  group by 1, 2
)
select wrote.node_id, wrote.edge_id, wrote.evidence, coalesce(node.type, edge.type) as type, node.name,
  origin.name as source, target.name as target
from wrote
left join graph_nodes as node on node.id = wrote.node_id and node.unsupported_since is null
left join graph_edges as edge on edge.id = wrote.edge_id and edge.unsupported_since is null
left join graph_nodes as origin on origin.id = edge.source_id
left join graph_nodes as target on target.id = edge.target_id
where coalesce(node.id, edge.id) is not null
order by wrote.edge_id is not null, wrote.at, coalesce(node.id, edge.id) limit {MAX_ELEMENTS}
""")


def written_lines(scope: GraphScope) -> BoundQuery[str]:
    """The nodes and edges that the queries of the scope's iteration have written, nodes first, each with the values that it
    was given and the dates as of which they hold.
    """

    def read(rows: Sequence[Row]) -> str:
        return truncate_to_budget([_line(row) for row in rows], scope.budget_bytes(TOKENS))

    return BoundQuery(_WRITTEN, {**scope.sql_params, "of_iteration": scope.iteration_id}, read)


def _line(row: Row) -> str:
    values: dict[str, Json] = {}
    for each in row.evidence:
        values.setdefault(each["as_of"] or "date unknown", {}).update(each["claims"])
    line = (
        node_line(row.node_id, row.type, row.name)
        if row.edge_id is None
        else edge_line(row.edge_id, row.type, row.source, row.target)
    )
    dated = [
        f"{json_line(shorten_properties(claims, _VALUE_CHARS))} ({date})" if claims else f"({date})"
        for date, claims in values.items()
    ]
    return f"{line} {'; '.join(dated)}"
