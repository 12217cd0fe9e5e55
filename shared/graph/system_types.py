"""The types that every agent has: its conclusions, and the edge from an analysis to its subject."""

import json
from typing import Final, get_args
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Executor
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.conclusions import AnalysisKind
from shared.graph.types import SYSTEM_CREATOR
from shared.tools import Json

ABOUT_TYPE = "about"

_EXAMPLE_ID = "00000000-0000-0000-0000-000000000000"
_GENERATED_AT = "2026-01-31T12:00:00Z"


def _conclusion_schema(
    verdict: str, verdict_schema: Json, description: str, **extra_properties: Json
) -> Json:
    """JSON Schema of a conclusion's properties.

    Older conclusions must satisfy it too, so it requires less than the writers do.
    """
    return {
        "type": "object",
        "properties": {
            verdict: {**verdict_schema, "description": description},
            "summary": {"type": "string", "minLength": 1, "description": "One sentence."},
            "content": {
                "type": "string",
                "minLength": 1,
                "description": "The reasoning in Markdown, with its citations.",
            },
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "horizon": {
                "type": "string",
                "format": "date",
                "description": "The last day on which it holds.",
            },
            "generated_at": {"type": "string", "format": "date-time", "description": "UTC."},
            **extra_properties,
        },
        "required": [verdict, "summary", "content", "generated_at"],
        "additionalProperties": False,
    }


NODE_TYPES: tuple[Json, ...] = (
    {
        "name": ADVICE_TYPE,
        "description": "A recommendation to the owner, standing on analyses. Written by the Adviser only.",
        "properties_schema": _conclusion_schema(
            "action",
            {"type": "string", "minLength": 1},
            "What the owner should do, in a word of the agent.",
            invalidation={"type": "string", "description": "What would prove it wrong."},
            change={
                "type": "string",
                "description": "What changed since the advice that it replaces.",
            },
        ),
        "example_properties": {
            "action": "HOLD",
            "summary": "Demand holds, so there is no reason to sell.",
            "content": f"Orders grew for three quarters [node:{_EXAMPLE_ID}].",
            "confidence": 0.6,
            "horizon": "2026-04-30",
            "invalidation": "Orders of the next quarter that are more than a tenth below those of this one.",
            "generated_at": _GENERATED_AT,
        },
    },
    {
        "name": ANALYSIS_TYPE,
        "description": "A conclusion drawn from cited nodes and edges. Written by the Analyzer only.",
        "properties_schema": _conclusion_schema(
            "type",
            {"enum": list(get_args(AnalysisKind))},
            "One noteworthy fact, or something that repeats across several.",
        ),
        "example_properties": {
            "type": "pattern",
            "summary": "Orders have grown for three quarters.",
            "content": f"Each report names more orders than the last [node:{_EXAMPLE_ID}].",
            "confidence": 0.8,
            "generated_at": _GENERATED_AT,
        },
    },
)


_ABOUT_TYPE_DEFINITION: Json = {
    "name": ABOUT_TYPE,
    "description": "the analysis is about this node",
    "source_types": [ANALYSIS_TYPE],
    "target_types": [],
}
_ENSURE: Final = CompiledStatement(f"""
with about as (
  insert into graph_edge_types
    (agent_id, name, description, source_types, target_types, created_by)
  select :of_agent, name, description, source_types, target_types, '{SYSTEM_CREATOR}'
  from jsonb_to_record(cast(:edge_type as jsonb)) as given
    (name text, description text, source_types jsonb, target_types jsonb)
  on conflict do nothing
)
insert into graph_node_types as known
  (agent_id, name, description, properties_schema, example_properties, created_by)
select :of_agent, name, description, properties_schema, example_properties, '{SYSTEM_CREATOR}'
from jsonb_to_recordset(cast(:node_types as jsonb)) as given
  (name text, description text, properties_schema jsonb, example_properties jsonb)
-- Not left to the conflict, which would lock the row that it finds, and so write to the log.
where not exists (
  select from graph_node_types as same
  where same.agent_id = :of_agent and same.name = given.name
    and (same.created_by <> '{SYSTEM_CREATOR}' or same.properties_schema = given.properties_schema))
on conflict (agent_id, name) do update
set properties_schema = excluded.properties_schema, example_properties = excluded.example_properties
where known.created_by = '{SYSTEM_CREATOR}' and known.properties_schema <> excluded.properties_schema
""")
_PARAMS: Final = {
    "node_types": json.dumps(NODE_TYPES),
    "edge_type": json.dumps(_ABOUT_TYPE_DEFINITION),
}


async def ensure_system_types(transaction: Executor, agent_id: UUID) -> None:
    """Create the agent's system types, and bring the properties schema of existing ones up to date."""
    await ensure_query(agent_id).execute(transaction)


def ensure_query(agent_id: UUID) -> BoundQuery[None]:
    """The statement of `ensure_system_types`."""
    return BoundQuery(_ENSURE, {"of_agent": agent_id, **_PARAMS}, lambda _: None)
