"""Tables: users, agents, prompts, conversations, memories."""

from datetime import date, datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.database.tables.billing import USD
from shared.enums import PROMPTED_PHASES, AgentStatus, MemoryKind, PromptMaker

_DOMAINS: Final = ARRAY(Text(), dimensions=1)
DEFAULT_ACTIONS: Final = (
    '{"BUY": "Begin or do more.", "HOLD": "Change nothing.", "SELL": "End or do less."}'
)
"""Words of markets, with what they mean."""
BYTES_PER_TOKEN: Final = 3.2
"""Assumed until servers have counted the tokens of some requests. OpenAI's o200k_base has 3.6 in English contexts."""


class User(Base):
    """A user, who may own agents. Written by the API."""

    __tablename__ = "users"
    __table_args__ = (Index("users_email_key", text("lower(email)"), unique=True),)

    id: Mapped[Id]
    name: Mapped[str] = mapped_column(unique=True)
    email: Mapped[str | None]
    operator: Mapped[bool] = mapped_column(server_default=text("false"))
    """Administers the installation: creates users and sees every dead letter."""
    disabled_at: Mapped[datetime | None]
    """When the user was disabled: no credential is accepted any more. None: enabled."""
    signed_in_at: Mapped[datetime | None]
    """When a browser last signed in; None: never."""
    created_at: Mapped[Created]


class Agent(Base):
    """A mission that is monitored continuously.

    Written by the API. The scheduler updates the next run; the assistant writes what it derives from the mission: the
    name, the prompts (empty until then) and the status.
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
    """How often the prompts were written; 0 if never, or before their history was recorded."""
    status: Mapped[str] = mapped_column(server_default=AgentStatus.READY)
    fault: Mapped[str | None]
    """Why the last configuration failed, and what to do; None if it did not fail."""
    configurations_ordered: Mapped[int] = mapped_column(server_default="0")
    """How often a configuration was requested; only the last of these steps counts."""
    models: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    """Phase to model name; other phases use the default of the installation."""
    interval_seconds: Mapped[int]
    max_interval_seconds: Mapped[int | None]
    """The interval grows up to this while iterations are quiet; None: it does not grow."""
    feedback_rounds: Mapped[int] = mapped_column(server_default="0")
    """How many further rounds an iteration may run for data that Analyzers lacked."""
    advice_from_one_analysis: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether advice may cite a single analysis."""
    actions: Mapped[Json] = mapped_column(JSONB, server_default=DEFAULT_ACTIONS)
    """The words for what advice tells the owner to do, with what each means. Advice keeps its word when they change."""
    verification_usd_per_day: Mapped[Decimal | None] = mapped_column(USD)
    """Daily cap (UTC) of the phase `verification`, within the agent's budget; 0: nothing is read, None: no own cap."""
    entailment_usd_per_day: Mapped[Decimal] = mapped_column(USD, server_default="0")
    """Daily cap (UTC) that releases before 0.4 read in place of `verification_usd_per_day`."""
    entailment_share: Mapped[float] = mapped_column(server_default="0.05")
    """Share of new evidence that is read, 0 to 1. Of what conclusions cite, all is."""
    preferred_domains: Mapped[list[str]] = mapped_column(_DOMAINS, server_default="{}")
    """Their pages are the first in search results. A domain covers its subdomains."""
    barred_domains: Mapped[list[str]] = mapped_column(_DOMAINS, server_default="{}")
    """Their pages are neither found nor read nor cited."""
    corpus: Mapped[str | None]
    """The corpus of documents that the sandbox's search reads for it; None: that of the installation. Never changed: what
    the agent knows was read there.
    """
    archive_date: Mapped[date | None]
    """The date that it takes for today; None: the real one. See `shared.workflow.agent_clock`."""
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    next_run_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    run_requested_at: Mapped[datetime | None]
    """Set when a user requests a run; cleared by the scheduler when it starts one."""
    iterations_started: Mapped[int] = mapped_column(server_default="0")
    """Number of the newest iteration; stored here so that numbers stay unique when old iterations expire."""
    budget_usd_per_day: Mapped[Decimal | None] = mapped_column(USD)
    budget_calls_per_day: Mapped[int | None]
    """Daily cap (UTC); None is no cap for this agent."""
    bytes_per_token: Mapped[float] = mapped_column(server_default=str(BYTES_PER_TOKEN))
    """Of the requests of its calls, as its model servers counted them: it depends on the languages of the pages and on the
    models. Budgets of contexts are computed with it.
    """
    suspended_until: Mapped[datetime | None]
    """No iteration is started before: a budget is used up. Set by the service that hits the cap, cleared by the API."""
    created_at: Mapped[Created]
    updated_at: Mapped[Created]


class PromptVersion(Base):
    """The prompt of one phase, from this version of the agent's prompts on. Written by the assistant and the API.

    A version contains only the prompts that it changed.
    """

    __tablename__ = "prompt_versions"
    __table_args__ = (one_of("phase", PROMPTED_PHASES), one_of("made_by", PromptMaker))

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int] = mapped_column(primary_key=True)
    phase: Mapped[str] = mapped_column(primary_key=True)
    prompt: Mapped[str]
    made_by: Mapped[str]
    created_at: Mapped[Created]


class Conversation(Base):
    """The one conversation of an agent. A turn is a question of the owner and the agent's answer.

    Created with its first message. The API counts the turns; the assistant writes the summary.
    """

    __tablename__ = "conversations"

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), unique=True)
    turns: Mapped[int] = mapped_column(server_default="0")
    """Number of the newest turn."""
    summary: Mapped[str] = mapped_column(server_default="")
    """Summary of the turns up to `summarized_turns`, whose messages are kept."""
    summarized_turns: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[Created]


class Message(Base):
    """A question (written by the API with an empty row for the answer), an answer (updated by the assistant under its
    step's lease), or advice (written by the Adviser).

    The status of an answer is that of its step: the step of kind `converse` whose index is the turn.
    """

    __tablename__ = "messages"
    __table_args__ = (Index("messages_conversation_idx", "conversation_id", "created_at"),)

    id: Mapped[Id]
    conversation_id: Mapped[UUID] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE")
    )
    role: Mapped[str]
    turn: Mapped[int | None]
    """None for advice, which belongs to no turn."""
    node_id: Mapped[UUID | None]
    """The AgentAdvice of the message. No foreign key: nodes live as long as their agent."""
    content: Mapped[str]
    """The text of an unfinished answer so far."""
    draft: Mapped[int] = mapped_column(server_default="0")
    """Increased when an answer is restarted; within one draft the content is only appended to."""
    tool_uses: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """The tool calls before the answer: `{"key", "tool", "about"}` in order, append-only."""
    citations: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """Citations of a complete answer: `{"kind", "id", "type", "name"}`; without type and name if the element is gone."""
    completed_at: Mapped[datetime | None]
    """When the answer was complete."""
    created_at: Mapped[Created]


class Memory(Base):
    """A preference or fact that the owner stated. Written by the assistant and the API.

    Forgotten memories are kept as rows, and shown only to their owner.
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
    """The owner's message that it came from; None if the owner entered it directly."""
    created_at: Mapped[Created]
    forgotten_at: Mapped[datetime | None]
