"""SQL of what contexts show: no element, and no value of one, that a model found contradicted by all of its quotes."""

from typing import Final

from shared.enums import Entailment
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL

_IS_CONTRADICTED: Final = f"verdict = '{Entailment.CONTRADICTED}'"
_OTHER_SQL: Final = f"""
  select from evidence as other join sources on sources.id = other.source_id
  where (other.node_id = evidence.node_id or other.edge_id = evidence.edge_id) and retracted_at is null
    and not exists (
      select from entailment_verdicts where evidence_id = other.id and {_IS_CONTRADICTED})
"""
# Each is computed once for a statement. Few graphs have any.
STANDS_SQL: Final = f"""
{IS_SUPPORTED_SQL} and id not in (
  select coalesce(evidence.node_id, evidence.edge_id)
  from entailment_verdicts join evidence on evidence.id = evidence_id
  where entailment_verdicts.agent_id = {OWNED_AGENT_ID_SQL} and {_IS_CONTRADICTED} and not exists ({_OTHER_SQL}))
"""
"""SQL condition: the node or edge has evidence, or none at all, that is neither retracted nor contradicted."""
STANDING_PROPERTIES_SQL: Final = f"""
case when exists (
  select from entailment_verdicts where agent_id = {OWNED_AGENT_ID_SQL} and {_IS_CONTRADICTED}
) then properties - array(
  select claim.key from evidence join entailment_verdicts on evidence_id = evidence.id
  cross join lateral jsonb_each(claims) as claim
  where evidence.node_id = graph_nodes.id and {_IS_CONTRADICTED} and properties -> claim.key = claim.value
    and not exists ({_OTHER_SQL} and other.claims -> claim.key = claim.value)
) else properties end
"""
"""The properties of a row of `graph_nodes` without values that only contradicted evidence has."""
