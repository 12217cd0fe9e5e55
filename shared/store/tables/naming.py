"""What things are called: which name is whose, and which of two nodes was found to be the other."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id, Json

_BY_BYTES = Text(collation="C")
"""Names are looked for beside each other, in an order that is the same on every machine."""


class GraphName(Base):
    """A name of a node, by its key: whoever holds it is the one node of that name and type."""

    __tablename__ = "graph_names"
    __table_args__ = (
        Index("graph_names_backwards_idx", "agent_id", "type", "backwards"),
        Index("graph_names_by_length_idx", "agent_id", "type", "by_length"),
    )

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    type: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(_BY_BYTES, primary_key=True)
    """See `shared.graph.naming`."""
    backwards: Mapped[str] = mapped_column(_BY_BYTES)
    """The key from its end to its beginning: beside it stand names that end alike."""
    by_length: Mapped[str] = mapped_column(_BY_BYTES)
    """The key's words, the longest first: beside it stand names of the same words in another order."""
    name: Mapped[str]
    """As it was written."""
    # Names are taken before the node is written, so that two who write it at once meet here.
    node_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        index=True,
    )
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    created_at: Mapped[Created]


class GraphMerge(Base):
    """One node was found to be another: what was moved, so that it can be undone."""

    __tablename__ = "graph_merges"
    __table_args__ = (Index("graph_merges_agent_made_idx", "agent_id", "made_at"),)

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    kept_id: Mapped[UUID] = mapped_column(index=True)
    gone_id: Mapped[UUID] = mapped_column(index=True)
    reason: Mapped[str]
    gone: Mapped[Json]
    """The row of the node that is gone."""
    moved: Mapped[Json]
    """See `shared.graph.merging.journal`."""
    made_by: Mapped[UUID | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    made_at: Mapped[Created]
    undone_at: Mapped[datetime | None]


class GraphMove(Base):
    """Under which id a node or edge is found since a merge; gone again when that is undone."""

    __tablename__ = "graph_moves"
    __table_args__ = (
        CheckConstraint("gone_id <> kept_id", name="elsewhere"),
        Index("graph_moves_merge_idx", "merge_id"),
        Index("graph_moves_kept_idx", "agent_id", "kept_id"),
    )

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    gone_id: Mapped[UUID] = mapped_column(primary_key=True)
    kept_id: Mapped[UUID]
    """Which may have been moved itself since."""
    merge_id: Mapped[UUID] = mapped_column(ForeignKey("graph_merges.id", ondelete="CASCADE"))
