"""The tool that ties an analysis to what it is about: an edge that rests on no page."""

from typing import Any

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import edges
from shared.graph.scope import Scope
from shared.graph.tools.references import NodeReference, node_id, with_understood
from shared.graph.validation import Validators
from shared.tools import Arguments, Json, StateTool


class TieAnalysis(Arguments):
    type: str = Field(description='The name of an existing edge type, mostly "about".')
    source_id: NodeReference = Field(
        description="Id of the node that the edge starts from, or its name."
    )
    target_id: NodeReference = Field(
        description="Id of the node that the edge leads to, or its name."
    )
    properties: dict[str, Any] = Field(
        default_factory=dict, description="What the connection itself is like."
    )


def tie_analysis(scope: Scope, validators: Validators) -> StateTool[TieAnalysis]:
    async def run(session: AsyncSession, given: TieAnalysis) -> Json:
        understood: list[str] = []
        source_id = await node_id(session, scope, given.source_id, "sourceId", understood)
        target_id = await node_id(session, scope, given.target_id, "targetId", understood)
        edge_id, created = await edges.tie_analysis(
            session,
            scope,
            validators,
            type_name=given.type,
            source_id=source_id,
            target_id=target_id,
            properties=given.properties,
        )
        return with_understood({"edgeId": str(edge_id), "created": created}, understood)

    return StateTool(
        "addGraphEdge",
        "Connects an AgentAnalysis with an existing node by an existing edge type. Refused where neither end is an "
        "AgentAnalysis.",
        TieAnalysis,
        run,
    )
