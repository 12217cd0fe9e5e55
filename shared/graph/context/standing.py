"""SQL of what contexts show: no node or edge whose existence all of its evidence was refused for."""

from typing import Final

from shared.graph.provenance.verdicts import IS_REFUSING_SQL, REFUSED_SQL
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL
from shared.tools.readings import EXISTS

# Computed once for a statement. Few graphs have any.
STANDS_SQL: Final = f"""
{IS_SUPPORTED_SQL} and id not in (
  select coalesce(refused.node_id, refused.edge_id)
  from entailment_verdicts join evidence as refused on refused.id = evidence_id
  where entailment_verdicts.agent_id = {OWNED_AGENT_ID_SQL} and {IS_REFUSING_SQL} and not exists (
    select from evidence join sources on sources.id = evidence.source_id
    where (evidence.node_id = refused.node_id or evidence.edge_id = refused.edge_id) and retracted_at is null
      and '{EXISTS}' <> all ({REFUSED_SQL})))
"""
"""SQL condition: the node or edge has evidence, or none at all, that is neither retracted nor refused as a whole."""
