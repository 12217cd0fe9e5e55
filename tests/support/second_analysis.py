"""A second analysis, for tests of something else: advice cites two."""

from uuid import UUID

from shared.database.transaction import Transaction
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from tests.support.forecast_terms import ANALYSIS_TERMS

NAME = "And so it is"


async def add_second_analysis(
    session: Transaction, scope: GraphScope, node_id: UUID, name: str = NAME
) -> UUID:
    """An analysis that cites the node, and says nothing that could be wrong."""
    return await conclusions.add_analysis(
        session,
        scope,
        name=name,
        kind="observation",
        summary="It is so.",
        content=f"It is so [node:{node_id}].",
        **ANALYSIS_TERMS,
    )
