"""Tables: sources, evidence, retractions."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, LargeBinary, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json


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


class Retraction(Base):
    """That an address, or one version of what stood there, is not believed. Written by the api.

    Which of its sources do not count is in `sources.retracted_at`; here is who said so, and what is left to do.
    """

    __tablename__ = "retractions"
    __table_args__ = (
        Index("retractions_agent_idx", "agent_id", "created_at"),
        Index(
            "retractions_due_idx",
            "due_at",
            postgresql_where=text("due_at is not null"),
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    url: Mapped[str]
    source_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), index=True
    )
    """The one version that it is about; None where it is all that there were."""
    because: Mapped[str]
    created_at: Mapped[Created]
    restored_at: Mapped[datetime | None]
    due_at: Mapped[datetime | None]
    """Since when what rests on its sources waits to be gone through; None when that is done."""


class RetractedSource(Base):
    """A source that a retraction is about, and how far what rests on it has been gone through."""

    __tablename__ = "retracted_sources"

    retraction_id: Mapped[UUID] = mapped_column(
        ForeignKey("retractions.id", ondelete="CASCADE"), primary_key=True
    )
    source_id: Mapped[UUID] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    is_due: Mapped[bool]
    through: Mapped[UUID | None]
    """Evidence up to this id is done. None: those who wrote while it was retracted were not waited for yet."""


class Citation(Base):
    """That a conclusion cites a node or edge, so that it is found from there."""

    __tablename__ = "citations"

    conclusion_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), primary_key=True
    )
    cited_id: Mapped[UUID] = mapped_column(primary_key=True, index=True)
    """Of a node or an edge; no foreign key, for the text cites it still where it was merged into another."""


class Doubt(Base):
    """That a conclusion rests on a thing which is not what it was held to be, because a source was retracted."""

    __tablename__ = "doubts"
    __table_args__ = (
        Index(
            "doubts_open_idx",
            "conclusion_id",
            "since",
            postgresql_where=text("cleared_at is null"),
        ),
    )

    id: Mapped[Id]
    conclusion_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), index=True
    )
    thing_id: Mapped[UUID] = mapped_column(index=True)
    """The node or edge; no foreign key, as of citations."""
    source_id: Mapped[UUID] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), index=True
    )
    since: Mapped[Created]
    weighed_at: Mapped[datetime | None]
    """When it was last seen to stand although more had been learned of the thing; None: not since it was raised."""
    cleared_at: Mapped[datetime | None]
