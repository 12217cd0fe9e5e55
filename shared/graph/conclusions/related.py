"""Relations of subjects in the graph: an issuer and its instruments, a whole and its part."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, uuid_array
from shared.graph.conclusions.subjects import Ties
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope

SUBJECTS_KEY: Final = "x-subjects"
"""In the schema of an edge type: `issuer` if one end issues the other, `part` if one is a part of the other, else `none`."""
_ISSUED: Final = "share|stock|bond|note|security|instrument|loan|debt"
_ISSUER_TYPES: Final = (
    rf"^(is_)?(an?_)?({_ISSUED})s?_(of|by)$|^(is_)?(issue[sd]?|issuer)(_by|_of)?$"
    rf"|^(has|issue[sd]?)_({_ISSUED})s?$"
)
_PART_TYPES: Final = (
    r"^(is_)?(an?_)?(part|subsidiary|division|unit|branch|component)_of$"
    r"|^(has|have)_(part|subsidiary|division|unit|branch|component)s?$"
)
# Two instruments of one issuer are related too; two parts of one whole are not.
_TIES: Final = CompiledStatement(f"""
with relating as (
  select name, coalesce(properties_schema ->> '{SUBJECTS_KEY}',
    case when name ~ '{_ISSUER_TYPES}' then 'issuer' when name ~ '{_PART_TYPES}' then 'part' end) as relation
  from graph_edge_types where agent_id = {OWNED_AGENT_ID_SQL}
), legs as (
  select source_id as id, target_id as other_id, type, relation
  from graph_edges as edge join relating on relating.name = edge.type
  where edge.source_id = any(cast(:ids as uuid[])) and edge.agent_id = {OWNED_AGENT_ID_SQL}
    and relation in ('issuer', 'part') and {IS_SUPPORTED_SQL}
  union all
  select target_id, source_id, type, relation
  from graph_edges as edge join relating on relating.name = edge.type
  where edge.target_id = any(cast(:ids as uuid[])) and edge.agent_id = {OWNED_AGENT_ID_SQL}
    and relation in ('issuer', 'part') and {IS_SUPPORTED_SQL}
)
select id, other_id, type from legs where other_id = any(cast(:ids as uuid[]))
union all
select one.id, other.id, one.type from legs as one join legs as other on one.other_id = other.other_id
where one.id < other.id and one.relation = 'issuer' and other.relation = 'issuer'
order by 3 desc
""")


def ties_query(scope: GraphScope, node_ids: Iterable[UUID]) -> BoundQuery[Ties]:
    """Which of these nodes the agent's edges relate as issuer and instrument, instruments of one issuer, or whole and part.

    The type of an edge says so by its name (`share_of`, `issued_by`, `part_of`), or by SUBJECTS_KEY in its schema.
    """
    params = {**scope.sql_params, "ids": uuid_array(sorted(set(node_ids)))}
    return BoundQuery(
        _TIES, params, lambda rows: {frozenset((row[0], row[1])): row[2] for row in rows}
    )
