"""What an agent and its owner say to each other, and what the agent keeps of it."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id, Json, one_of
from shared.store.words import MemoryKind


class Conversation(Base):
    """The one conversation of an agent. A turn is a question of the owner's and the agent's answer to it.

    Made by whoever writes its first message; turns are counted by the api, the summary is the concierge's.
    """

    __tablename__ = "conversations"

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), unique=True)
    turns: Mapped[int] = mapped_column(server_default="0")
    """Number of the newest turn."""
    summary: Mapped[str] = mapped_column(server_default="")
    """What was said in the turns up to `summarized_turns`; they stay where they are."""
    summarized_turns: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[Created]


class Message(Base):
    """Something said: a question (written by the api, with the answer's empty row), an answer (written on by the
    concierge, under its step's lease), or advice (written by the Adviser).

    How an answer is doing is its step's to say: the step of kind `converse` whose index is the turn.
    """

    __tablename__ = "messages"
    __table_args__ = (Index("messages_conversation_idx", "conversation_id", "created_at"),)

    id: Mapped[Id]
    conversation_id: Mapped[UUID] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE")
    )
    role: Mapped[str]
    turn: Mapped[int | None]
    """None for advice, which is part of no turn."""
    node_id: Mapped[UUID | None]
    """The AgentAdvice that this tells. No foreign key: it is a link, and nodes live as long as their agent."""
    content: Mapped[str]
    """Of an answer under way: all that it says so far."""
    draft: Mapped[int] = mapped_column(server_default="0")
    """Grows when an answer is begun anew; within a draft the content is only ever added to."""
    looked: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """What the agent looked at for its answer: `{"key", "tool", "about"}` in order, only ever added to."""
    citations: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """Of a complete answer: `{"kind", "id", "type", "name"}`; without type and name where there is no such thing."""
    completed_at: Mapped[datetime | None]
    """When the answer was whole."""
    created_at: Mapped[Created]


class Memory(Base):
    """A wish or a fact that the owner told the agent. Written by the concierge and the api.

    Forgotten ones stay as rows, and are shown to nobody but their owner.
    """

    __tablename__ = "memories"
    __table_args__ = (
        one_of("kind", MemoryKind),
        Index(
            "memories_active_idx",
            "agent_id",
            "created_at",
            postgresql_where=text("forgotten_at is null"),
        ),
        Index("memories_agent_idx", "agent_id", "created_at"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    kind: Mapped[str]
    content: Mapped[str]
    message_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("messages.id", ondelete="SET NULL"), index=True
    )
    """The owner's message that it came from; None where it was told directly."""
    created_at: Mapped[Created]
    forgotten_at: Mapped[datetime | None]
