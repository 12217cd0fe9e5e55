"""What people get to see of a conversation, as frozen models."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from shared.schemas.base import CitationView, View

MessageKind = Literal["question", "answer", "advice"]
MessageStatus = Literal["waiting", "pending", "writing", "complete", "failed"]
ENDED: Final = ("complete", "failed")


class LookView(View):
    """What the agent looked at for its answer: a tool, and what it was asked about."""

    tool: str
    about: str


class MessageView(View):
    """Something said. Of an answer under way, `content` is as far as it has come.

    An answer is `waiting` while earlier ones of this conversation are still to be made, `pending` until a worker takes
    it (again), then `writing`. Questions and advice are complete.
    """

    id: UUID
    kind: MessageKind
    role: Literal["user", "agent"]
    turn: int | None
    """A question and its answer have the same; None for advice."""
    status: MessageStatus
    content: str
    looked: list[LookView]
    citations: list[CitationView]
    """Of a complete answer. One without a name does not exist: the model made it up."""
    error: str | None
    """Why it failed, or why it is being tried again."""
    node_id: UUID | None
    """The AgentAdvice that this tells."""
    created_at: datetime
    completed_at: datetime | None


class TurnView(View):
    """What was just asked, and the answer that is to come."""

    question: MessageView
    answer: MessageView


class MemoryView(View):
    """A wish or a fact that the owner told."""

    id: UUID
    kind: Literal["wish", "fact"]
    content: str
    message_id: UUID | None
    """The message that said so; None where it was told directly."""
    created_at: datetime
    forgotten_at: datetime | None


class TextPiece(View):
    """More of the answer: it belongs at `offset` (in characters, as Unicode counts them) of `draft`."""

    draft: int
    offset: int
    text: str


class Restart(View):
    """The answer begins anew: what was sent of it before is void."""

    draft: int
