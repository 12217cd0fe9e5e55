"""What an agent knows: typed nodes and edges."""

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    UniqueConstraint,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id, Json

NAME_WORDS: Final[ColumnElement[str]] = literal_column("to_tsvector('simple'::regconfig, name)")
"""A node's name as the words that it is searched by; written as in its index, which would not be used otherwise."""
PROPERTY_WORDS: Final[ColumnElement[str]] = literal_column(
    "jsonb_to_tsvector('simple'::regconfig, properties, '[\"string\", \"numeric\"]'::jsonb)"
)
"""The words and figures of a node's properties, likewise."""
NAME_IN_SMALL: Final[ColumnElement[str]] = literal_column("lower(name)")


class GraphNodeType(Base):
    __tablename__ = "graph_node_types"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True)
    description: Mapped[str]
    properties_schema: Mapped[Json]
    example_properties: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    created_by: Mapped[str]
    """`system`, or the phase that made it."""
    justification: Mapped[str | None]
    """Why no type that there was fits; None of what nobody was asked to justify."""
    created_at: Mapped[Created]


class GraphEdgeType(Base):
    __tablename__ = "graph_edge_types"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True)
    description: Mapped[str]
    properties_schema: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    source_types: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    """Node types an edge may start from; empty means any."""
    target_types: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    example_properties: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    created_by: Mapped[str]
    justification: Mapped[str | None]
    created_at: Mapped[Created]


class GraphNode(Base):
    __tablename__ = "graph_nodes"
    __table_args__ = (
        UniqueConstraint("agent_id", "type", "name"),
        ForeignKeyConstraint(
            ["agent_id", "type"], ["graph_node_types.agent_id", "graph_node_types.name"]
        ),
        Index("graph_nodes_agent_updated_idx", "agent_id", "updated_at"),
        Index("graph_nodes_agent_type_updated_idx", "agent_id", "type", "updated_at"),
        Index("graph_nodes_agent_name_idx", "agent_id", NAME_IN_SMALL),
        # Whose node it is and of which type stand in it too, so that others' words cost nothing. Rows are entered
        # some fifty at a time, which writes half as much to PostgreSQL's log as each at once: the list in which they wait
        # is gone through by every search, and so is kept at 64 kB.
        Index(
            "graph_nodes_search_idx",
            "agent_id",
            "type",
            NAME_WORDS,
            "name",
            PROPERTY_WORDS,
            postgresql_using="gin",
            postgresql_ops={"name": "gin_trgm_ops"},
            postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "64"},
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    type: Mapped[str]
    name: Mapped[str]
    properties: Mapped[Json]
    seal: Mapped[bytes | None] = mapped_column(LargeBinary)
    """See `shared.graph.proof.seals`; None of what was written before evidence was kept."""
    unsupported_since: Mapped[datetime | None]
    """Since when all of its evidence is of retracted sources; None also where there is none."""
    iteration_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("iterations.id", ondelete="SET NULL"), index=True
    )
    """The iteration that made it."""
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    created_at: Mapped[Created]
    updated_at: Mapped[Created]


class GraphEdge(Base):
    __tablename__ = "graph_edges"
    __table_args__ = (
        UniqueConstraint("agent_id", "type", "source_id", "target_id"),
        ForeignKeyConstraint(
            ["agent_id", "type"], ["graph_edge_types.agent_id", "graph_edge_types.name"]
        ),
        Index("graph_edges_agent_updated_idx", "agent_id", "updated_at"),
        Index("graph_edges_agent_type_updated_idx", "agent_id", "type", "updated_at"),
        Index("graph_edges_source_updated_idx", "source_id", "updated_at"),
        Index("graph_edges_target_updated_idx", "target_id", "updated_at"),
        Index("graph_edges_ends_idx", "source_id", "target_id"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    type: Mapped[str]
    source_id: Mapped[UUID] = mapped_column(ForeignKey("graph_nodes.id", ondelete="CASCADE"))
    target_id: Mapped[UUID] = mapped_column(ForeignKey("graph_nodes.id", ondelete="CASCADE"))
    properties: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    seal: Mapped[bytes | None] = mapped_column(LargeBinary)
    """As a node's."""
    unsupported_since: Mapped[datetime | None]
    """As a node's."""
    iteration_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("iterations.id", ondelete="SET NULL"), index=True
    )
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    created_at: Mapped[Created]
    updated_at: Mapped[Created]
