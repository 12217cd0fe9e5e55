"""Commands of merges: merge two nodes, undo a merge."""

from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict

from services.api.auth.dependencies import AgentAccess
from services.api.http.openapi import length_in_schema
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.resources.graph.duplicates import get_merge
from services.api.resources.graph.model import has_element
from shared.database.tables import GraphNode
from shared.graph import entity_resolution
from shared.graph.entity_resolution import MergeRefusedError
from shared.schemas.graph import MergeResponse

MAX_REASON_CHARS: Final = 500


def _reason(text: str) -> str:
    text = " ".join(text.split())
    if not 1 <= len(text) <= MAX_REASON_CHARS:
        raise ValueError(
            f"enter 1 to {MAX_REASON_CHARS:,} characters; this text has {len(text):,} characters"
        )
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


Reason = Annotated[str, AfterValidator(_reason), length_in_schema(1, MAX_REASON_CHARS)]


class NewMerge(BaseModel):
    """Two nodes of one type that are one thing: what `merged` has becomes the other's."""

    model_config = ConfigDict(extra="forbid")

    kept: UUID
    merged: UUID
    reason: Reason


async def merge_nodes(access: AgentAccess, new_merge: NewMerge) -> MergeResponse:
    """Merges two nodes.

    Raises NotFoundError for an unknown node, and ConflictError where the two cannot be merged.
    """
    try:
        merge_id = await entity_resolution.merge_nodes(
            access.session,
            access.scope,
            kept_id=new_merge.kept,
            merged_id=new_merge.merged,
            reason=new_merge.reason,
            made_by=access.owner_id,
        )
    except MergeRefusedError as refusal:
        raise ConflictError("not-merged", f"Not merged: {refusal}.") from refusal
    if merge_id is None:
        is_there = await has_element(access, GraphNode, new_merge.kept)
        raise NotFoundError("node", new_merge.merged if is_there else new_merge.kept)
    return await get_merge(access, merge_id.id)


async def undo_merge(access: AgentAccess, merge_id: UUID) -> MergeResponse:
    """Undoes a merge. Raises NotFoundError, and ConflictError where later merges build on it."""
    try:
        await entity_resolution.undo_merge(access.session, access.scope, merge_id)
    except MergeRefusedError as refusal:
        raise ConflictError("not-undone", f"Not undone: {refusal}.") from refusal
    return await get_merge(access, merge_id)
