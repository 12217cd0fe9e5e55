"""What follows where a page turns out not to be believed: what was retracted, what is still to be done, who is in doubt."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id


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
