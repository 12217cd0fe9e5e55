"""What people say of doubles: that two nodes are one, and that they are not."""

from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict

from services.api.auth.dependencies import AgentAccess
from services.api.http.openapi import length_told
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.queries import entity_resolution as merge_queries
from services.api.queries import graph
from shared.graph import entity_resolution
from shared.graph.entity_resolution import MergeRefusedError
from shared.schemas.graph import MergeView

REASON_CHARACTERS: Final = 500


def _reason(text: str) -> str:
    text = " ".join(text.split())
    if not 1 <= len(text) <= REASON_CHARACTERS:
        raise ValueError(
            f"it has {len(text)} characters, and 1 to {REASON_CHARACTERS} can be taken"
        )
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


Reason = Annotated[str, AfterValidator(_reason), length_told(1, REASON_CHARACTERS)]


class NewMerge(BaseModel):
    """Two nodes of one type that are one thing: what `gone` has becomes the other's."""

    model_config = ConfigDict(extra="forbid")

    kept: UUID
    gone: UUID
    reason: Reason


async def merge(access: AgentAccess, wanted: NewMerge) -> MergeView:
    """Raises NotFoundError for a node that is not there, ConflictError where the two cannot be one."""
    try:
        made = await entity_resolution.merge(
            access.session,
            access.scope,
            kept_id=wanted.kept,
            gone_id=wanted.gone,
            reason=wanted.reason,
            made_by=access.owner_id,
        )
    except MergeRefusedError as refusal:
        raise ConflictError("not-merged", f"Not merged: {refusal}.") from refusal
    if made is None:
        is_there = await graph.has_node(access.session, access.scope, wanted.kept)
        raise NotFoundError("node", wanted.gone if is_there else wanted.kept)
    return await found(access, made.id)


async def undo(access: AgentAccess, merge_id: UUID) -> MergeView:
    """Raises NotFoundError, and ConflictError where later merges build on it."""
    try:
        await entity_resolution.undo(access.session, access.scope, merge_id)
    except MergeRefusedError as refusal:
        raise ConflictError("not-undone", f"Not undone: {refusal}.") from refusal
    return await found(access, merge_id)


async def found(access: AgentAccess, merge_id: UUID) -> MergeView:
    """Raises NotFoundError."""
    view = await merge_queries.find(access.session, access.owner_id, access.agent.id, merge_id)
    if view is None:
        raise NotFoundError("merge", merge_id)
    return view
