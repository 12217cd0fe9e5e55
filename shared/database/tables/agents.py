"""Tables: users, agents, prompts, conversations, memories."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.database.tables.billing import USD
from shared.enums import PROMPTED, AgentStatus, MemoryKind, PromptMaker


class User(Base):
    """Who may own agents. Written by the api."""

    __tablename__ = "users"
    __table_args__ = (Index("users_email_key", text("lower(email)"), unique=True),)

    id: Mapped[Id]
    name: Mapped[str] = mapped_column(unique=True)
    email: Mapped[str | None]
    operator: Mapped[bool] = mapped_column(server_default=text("false"))
    """Looks after the installation: makes users, and sees every dead letter."""
    disabled_at: Mapped[datetime | None]
    """Set: comes in by nothing any more."""
    signed_in_at: Mapped[datetime | None]
    """When a browser last was signed in; None: never."""
    created_at: Mapped[Created]


class Agent(Base):
    """A mission that is watched for ever.

    Written by the api; its next run by the scheduler too, and by the assistant what it makes of the mission: the name,
    the prompts, which are empty until then, and the status.
    """

    __tablename__ = "agents"
    __table_args__ = (
        CheckConstraint("interval_seconds >= 1", name="interval_seconds"),
        CheckConstraint("feedback_rounds between 0 and 2", name="feedback_rounds"),
        one_of("status", AgentStatus),
        Index("agents_due_idx", "next_run_at", postgresql_where=text("active")),
        Index(
            "agents_run_requested_idx",
            "run_requested_at",
            postgresql_where=text("run_requested_at is not null"),
        ),
        Index("agents_owner_name_key", "owner_id", text("lower(name)"), unique=True),
    )

    id: Mapped[Id]
    owner_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    name: Mapped[str]
    mission: Mapped[str]
    conversation_system_prompt: Mapped[str]
    observer_system_prompt: Mapped[str]
    knowledge_acquisition_system_prompt: Mapped[str]
    graph_construction_system_prompt: Mapped[str]
    analysis_generation_system_prompt: Mapped[str]
    advice_generation_system_prompt: Mapped[str]
    prompts_version: Mapped[int] = mapped_column(server_default="0")
    """How often the prompts were written; 0 where that was before their history began, or never."""
    status: Mapped[str] = mapped_column(server_default=AgentStatus.READY)
    fault: Mapped[str | None]
    """Why the last configuration failed, and what to do; None where none did."""
    configurations_ordered: Mapped[int] = mapped_column(server_default="0")
    """How often it was to be configured; the last of these steps alone counts."""
    models: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    """Phase to model name; a phase that is not named uses the installation's default."""
    interval_seconds: Mapped[int]
    feedback_rounds: Mapped[int] = mapped_column(server_default="0")
    """How often an iteration may look for what its Analyzers lacked, and ask them again."""
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    next_run_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    run_requested_at: Mapped[datetime | None]
    """Set when a person asks for a run now; cleared by the scheduler when it starts one."""
    iterations_started: Mapped[int] = mapped_column(server_default="0")
    """Number of the newest iteration; counted here so that numbers stay unique when old iterations expire."""
    budget_usd_per_day: Mapped[Decimal | None] = mapped_column(USD)
    budget_calls_per_day: Mapped[int | None]
    """What it may spend in a day (UTC); None is no cap of its own."""
    resting_until: Mapped[datetime | None]
    """No iteration is started before: a budget was used up. Written by whoever found it so, ended by the api."""
    created_at: Mapped[Created]
    updated_at: Mapped[Created]


class PromptVersion(Base):
    """One prompt as it was from this version of the agent's prompts on. Written by the assistant and the api.

    A version holds those prompts alone that it changed.
    """

    __tablename__ = "prompt_versions"
    __table_args__ = (one_of("phase", PROMPTED), one_of("made_by", PromptMaker))

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int] = mapped_column(primary_key=True)
    phase: Mapped[str] = mapped_column(primary_key=True)
    prompt: Mapped[str]
    made_by: Mapped[str]
    created_at: Mapped[Created]


class Conversation(Base):
    """The one conversation of an agent. A turn is a question of the owner's and the agent's answer to it.

    Made by whoever writes its first message; turns are counted by the api, the summary is the assistant's.
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
    assistant, under its step's lease), or advice (written by the Adviser).

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
    """A wish or a fact that the owner told the agent. Written by the assistant and the api.

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
