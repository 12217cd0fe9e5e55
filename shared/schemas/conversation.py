"""Schemas of conversations and memories."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from shared.schemas.base import CitationResponse, ResponseModel

MessageKind = Literal["question", "answer", "advice"]
MessageStatus = Literal["waiting", "pending", "writing", "complete", "failed"]
ENDED: Final = ("complete", "failed")


class ToolUseResponse(ResponseModel):
    """A lookup by the agent for its answer: the tool, and its subject."""

    tool: str
    about: str


class MessageResponse(ResponseModel):
    """A message. The `content` of an unfinished answer is the text so far.

    An answer is `waiting` while earlier ones of the conversation are unfinished, `pending` until a worker claims it
    (again), then `writing`. Questions and advice are complete.
    """

    id: UUID
    kind: MessageKind
    role: Literal["user", "agent"]
    turn: int | None
    """The same for a question and its answer; None for advice."""
    status: MessageStatus
    content: str
    tool_uses: list[ToolUseResponse]
    citations: list[CitationResponse]
    """Of a complete answer. A citation without a name does not exist: the model made it up."""
    error: str | None
    """Why it failed, or why it is being retried."""
    node_id: UUID | None
    """The AgentAdvice of the message."""
    created_at: datetime
    completed_at: datetime | None


class ConversationTurn(ResponseModel):
    """A new question, and the answer to come."""

    question: MessageResponse
    answer: MessageResponse


class MemoryResponse(ResponseModel):
    """A preference or fact that the owner stated."""

    id: UUID
    kind: Literal["wish", "fact"]
    content: str
    message_id: UUID | None
    """The message that it came from; None if it was entered directly."""
    created_at: datetime
    forgotten_at: datetime | None


class TextPiece(ResponseModel):
    """More text of the answer, at `offset` (in Unicode characters) of `draft`."""

    draft: int
    offset: int
    text: str


class Restart(ResponseModel):
    """The answer is restarted: the text of earlier drafts is void."""

    draft: int
