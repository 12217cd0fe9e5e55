"""The pages that were read, and which span of which page supports what the graph says."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Id, Json


class Source(Base):
    """A page as it was when it was fetched: what changed is another row, what did not is kept once."""

    __tablename__ = "sources"
    __table_args__ = (
        UniqueConstraint("agent_id", "url", "sha256"),
        Index("sources_agent_fetched_idx", "agent_id", "fetched_at"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    url: Mapped[str]
    title: Mapped[str | None]
    published: Mapped[datetime | None]
    """As the page or the search says; midnight UTC where that is a day."""
    fetched_at: Mapped[datetime]
    sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """Of the text in UTF-8; 32 bytes."""
    text: Mapped[str]
    """What was read of the page, which may be less than all of it."""
    seal: Mapped[bytes] = mapped_column(LargeBinary)
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    """The step that fetched it first."""
    retracted_at: Mapped[datetime | None]
    retracted_because: Mapped[str | None]


class Evidence(Base):
    """A span of a source, and what it says of one node or edge."""

    __tablename__ = "evidence"
    __table_args__ = (
        CheckConstraint("num_nonnulls(node_id, edge_id) = 1", name="of_one_thing"),
        CheckConstraint("0 <= first_byte and first_byte < end_byte", name="span"),
        Index("evidence_by_source_idx", "source_id", "id"),
        Index("evidence_node_as_of_idx", "node_id", "as_of"),
        Index("evidence_edge_as_of_idx", "edge_id", "as_of"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), index=True)
    node_id: Mapped[UUID | None] = mapped_column(ForeignKey("graph_nodes.id", ondelete="CASCADE"))
    edge_id: Mapped[UUID | None] = mapped_column(ForeignKey("graph_edges.id", ondelete="CASCADE"))
    source_id: Mapped[UUID] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"))
    first_byte: Mapped[int]
    end_byte: Mapped[int]
    """The span, in bytes of the source's text in UTF-8; the last one is not part of it."""
    quote_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """Of the span's bytes."""
    claims: Mapped[Json]
    """What it says: values by property; empty where only that the thing is."""
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    as_of: Mapped[datetime]
    """By which newer supersedes older: `valid_from`, else when the page was published, else fetched.

    Never after `learned_at`.
    """
    learned_at: Mapped[datetime]
    seal: Mapped[bytes] = mapped_column(LargeBinary)
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
