"""Commands of distinct pairs: declare two nodes distinct, forget that."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict

from services.api.auth.dependencies import AgentAccess
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.resources.graph import duplicates
from services.api.resources.graph.model import has_element
from shared.database.tables import GraphNode
from shared.graph.entity_resolution import distinct
from shared.graph.entity_resolution.distinct import NotComparableError
from shared.schemas.graph import DistinctPairResponse


class NewDistinctPair(BaseModel):
    """Two nodes of one type that are not the same thing."""

    model_config = ConfigDict(extra="forbid")

    one: UUID
    other: UUID


async def declare_distinct(access: AgentAccess, pair: NewDistinctPair) -> DistinctPairResponse:
    """Keeps the two from being listed as duplicates.

    Raises NotFoundError for an unknown node, and ConflictError where the two could be no duplicates.
    """
    try:
        pair_id = await distinct.declare_distinct(
            access.session, access.scope, (pair.one, pair.other), access.owner_id
        )
    except NotComparableError as error:
        raise ConflictError("not-comparable", f"Not saved: {error}.") from error
    if pair_id is None:
        is_there = await has_element(access, GraphNode, pair.one)
        raise NotFoundError("node", pair.other if is_there else pair.one)
    return await duplicates.get_distinct_pair(access, pair_id)


async def forget_distinct(access: AgentAccess, pair_id: UUID) -> None:
    """Raises NotFoundError."""
    if not await distinct.forget_distinct(access.session, access.scope, pair_id):
        raise NotFoundError("distinct pair", pair_id)
