"""What nodes mean, as vectors: nearness of meaning is nearness of these."""

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import REAL, CheckConstraint, ForeignKey, Index, LargeBinary, literal_column, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created

DIMENSIONS: Final = 256
"""Of every vector, whatever model made it."""
AS_VECTOR: Final = f"meaning::vector({DIMENSIONS})"
"""As pgvector compares it; written as in its index, which would not be used otherwise."""


class NodeEmbedding(Base):
    """A node's vector: what a model made of its text. Numbers alone, so that a server without pgvector has the table too."""

    __tablename__ = "node_embeddings"
    __table_args__ = (
        CheckConstraint(f"cardinality(meaning) = {DIMENSIONS}", name="dimensions"),
        Index("node_embeddings_agent_model_idx", "agent_id", "model"),
        # Where pgvector is, by `shared.store.nearness`.
        Index(
            "node_embeddings_near_idx",
            literal_column(f"({AS_VECTOR})").label("near"),
            postgresql_using="hnsw",
            postgresql_ops={"near": "vector_cosine_ops"},
        ),
    )

    node_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    model: Mapped[str]
    text_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """Of the text that the vector was made of: the node's may be another by now."""
    meaning: Mapped[list[float]] = mapped_column(ARRAY(REAL, dimensions=1))
    updated_at: Mapped[Created]


class EmbeddingSweep(Base):
    """How far an agent's nodes were gone through for such as have no vector, in the order of their `updated_at` and id."""

    __tablename__ = "embedding_sweeps"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    model: Mapped[str]
    """With another all begins anew."""
    through_at: Mapped[datetime]
    through_id: Mapped[UUID] = mapped_column(server_default=text(f"'{UUID(int=0)}'"))
    """The last node of those that were: its `updated_at` and id."""
