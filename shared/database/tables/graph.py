"""Tables: types, nodes, edges, their history, names, merges, embeddings."""

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of

NAME_WORDS: Final[ColumnElement[str]] = literal_column("to_tsvector('simple'::regconfig, name)")
"""Search vector of a node's name. Must be written exactly as in the index, which would not be used otherwise."""
PROPERTY_WORDS: Final[ColumnElement[str]] = literal_column(
    "jsonb_to_tsvector('simple'::regconfig, properties, '[\"string\", \"numeric\"]'::jsonb)"
)
"""Search vector of the words and numbers in a node's properties, likewise."""
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
    """`system`, or the phase that created it."""
    justification: Mapped[str | None]
    """Why no existing type fits; None for types that need no justification."""
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
    """Node types that an edge may start from; empty allows any."""
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
        # Agent and type are part of it, so that the words of other agents cost nothing. With the pending list (fastupdate)
        # about fifty rows are inserted at a time, which halves the WAL; every search scans that list, so it is limited
        # to 64 kB.
        Index(
            "graph_nodes_search_idx",
            "agent_id",
            "type",
            NAME_WORDS,
            PROPERTY_WORDS,
            postgresql_using="gin",
            postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "64"},
        ),
        # Trigrams, for names that are misspelled. Few searches need it, so its pending list can be long.
        Index(
            "graph_nodes_similar_idx",
            "agent_id",
            "name",
            postgresql_using="gin",
            postgresql_ops={"name": "gin_trgm_ops"},
            postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "1024"},
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    type: Mapped[str]
    name: Mapped[str]
    properties: Mapped[Json]
    rules: Mapped[Json | None] = mapped_column(JSONB(none_as_null=True))
    """By which a conclusion was accepted, see `shared.graph.conclusions.rules`; None for facts, and for conclusions of
    earlier releases.
    """
    seal: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Integrity hash, see `shared.graph.provenance.integrity`; None for rows without evidence."""
    unsupported_since: Mapped[datetime | None]
    """Since when all of its evidence is from retracted sources; None also if it has no evidence."""
    iteration_id: Mapped[UUID | None] = mapped_column(index=True)
    """The iteration that created it."""
    step_id: Mapped[UUID | None]
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
    """As in GraphNode."""
    unsupported_since: Mapped[datetime | None]
    """As in GraphNode."""
    iteration_id: Mapped[UUID | None] = mapped_column(index=True)
    step_id: Mapped[UUID | None]
    created_at: Mapped[Created]
    updated_at: Mapped[Created]


_UUIDS: Final = ARRAY(Uuid(), dimensions=1)
_TEXTS: Final = ARRAY(Text(), dimensions=1)


class GraphHead(Base):
    """The position of a graph in its history. Written by a trigger, as `GraphJournal`."""

    __tablename__ = "graph_head"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(BigInteger)
    """That of the newest entry of the journal."""
    hash: Mapped[bytes]
    """That of the newest entry of the journal."""


_LEAVES: Final = ARRAY(LargeBinary(), dimensions=1)


class GraphJournal(Base):
    """The changes of a transaction in a graph: one row for each transaction, in the order of their commits.

    Written by triggers when the transaction is committed, so that no writer can leave it out and none needs the right to
    write it: `note_…` and `write_graph_journal` in `shared/database/migrations/versions/0021_release.sql`. An entry that
    is visible is preceded by all with a smaller `seq`, without a gap.

    The hash of a row, a leaf, is the number of its table and 31 bytes of SHA-256 (`graph_leaf`). What was added less what
    was removed is what the tables hold; `shared.graph.verification.journal` compares them. Only Vigil's own connections,
    whose application name begins with `vigil-`, note leaves.
    """

    __tablename__ = "graph_journal"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_head.agent_id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """From 1."""
    step_id: Mapped[UUID | None]
    """The step in whose transaction it was changed, if any."""
    changed: Mapped[list[UUID]] = mapped_column(_UUIDS)
    """Nodes and edges that were inserted or changed."""
    deleted: Mapped[list[UUID]] = mapped_column(_UUIDS)
    """Nodes and edges that were deleted."""
    types: Mapped[list[str]] = mapped_column(_TEXTS)
    """Names of types of nodes or edges that were inserted, changed or deleted."""
    hash: Mapped[bytes]
    """SHA-256 of the entry with the hash of the one before: equal hashes mean the same history."""
    written_at: Mapped[datetime]
    added: Mapped[list[bytes] | None] = mapped_column(_LEAVES)
    """Leaves of rows that were inserted, or as they are after a change.

    None, as all below, in entries from before migration 0007.
    """
    removed: Mapped[list[bytes] | None] = mapped_column(_LEAVES)
    """Leaves of rows that were deleted, or as they were before a change."""
    root: Mapped[bytes | None]
    """SHA-256 over `added` and `removed`, which `hash` covers."""
    writer: Mapped[str | None]
    """The application name of the connection."""
    cited_root: Mapped[bytes | None]
    """In the first entry of an imported graph: the newest hash of the exported one, if the file has it."""
    signature: Mapped[bytes | None]
    """Of agent, position and hash, by `shared.database.signing`; None without a key."""


GRAPH_CHANGES: Final = Table(
    "graph_changes",
    Base.metadata,
    Column("transaction_id", BigInteger, nullable=False),
    Column("is_first", Boolean, nullable=False),
    Column("step_id", Uuid, nullable=True),
    Column("agent_id", Uuid, nullable=False),
    Column("changed", _UUIDS, server_default="{}", nullable=False),
    Column("deleted", _UUIDS, server_default="{}", nullable=False),
    Column("types", _TEXTS, server_default="{}", nullable=False),
    Column("added", _LEAVES, server_default="{}", nullable=False),
    Column("removed", _LEAVES, server_default="{}", nullable=False),
    Index("graph_changes_transaction_idx", "transaction_id"),
    prefixes=["UNLOGGED"],
)
"""The changes of each statement of a transaction, until it is committed. Always empty for other transactions."""


DIMENSIONS: Final = 256
"""Dimensions of every vector, for every model."""
AS_VECTOR: Final = f"embedding::vector({DIMENSIONS})"
"""The column as a pgvector value. Must be written exactly as in the index, which would not be used otherwise."""


class NodeEmbedding(Base):
    """The embedding of a node's text. An array of numbers, so that the table exists on servers without pgvector too."""

    __tablename__ = "node_embeddings"
    __table_args__ = (
        CheckConstraint(f"cardinality(embedding) = {DIMENSIONS}", name="dimensions"),
        Index("node_embeddings_agent_model_idx", "agent_id", "model"),
        # Created by `shared.database.pgvector`, if the server has pgvector.
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
    """Hash of the embedded text: the node's text may have changed since."""
    embedding: Mapped[list[float]] = mapped_column(ARRAY(REAL, dimensions=1))
    updated_at: Mapped[Created]


class EmbeddingSweep(Base):
    """How far an agent's nodes were scanned for missing embeddings, in the order of `updated_at` and id."""

    __tablename__ = "embedding_progress"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    model: Mapped[str]
    """The sweep restarts when the model changes."""
    through_at: Mapped[datetime]
    through_id: Mapped[UUID] = mapped_column(server_default=text(f"'{UUID(int=0)}'"))
    """The `updated_at` and id of the last scanned node."""


_BY_BYTES = Text(collation="C")
"""Neighbouring names are compared in an order that is the same on every machine."""


JOINING_WORDS: Final = "of|the|and|for|de|der|des|du|di|la|und|et"
INITIALS_SQL: Final = (
    f"regexp_replace(regexp_replace(' ' || key, ' ({JOINING_WORDS})(?= )', '', 'g'),"
    r" '\s*(\S)\S*', '\1', 'g')"
)
"""The initials of a key, without words that join others. Must be written exactly as in the index."""


class GraphName(Base):
    """A name of a node, by its normalized key: each name of a type belongs to exactly one node."""

    __tablename__ = "graph_names"
    __table_args__ = (
        Index("graph_names_reversed_key_idx", "agent_id", "type", "reversed_key"),
        Index("graph_names_sorted_words_key_idx", "agent_id", "type", "sorted_words_key"),
        Index(
            "graph_names_initials_idx",
            "agent_id",
            "type",
            literal_column(INITIALS_SQL).label("initials"),
            postgresql_where=text("key like '% % %'"),
        ),
    )

    agent_id: Mapped[UUID] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(_BY_BYTES, primary_key=True)
    """Normalized name, see `shared.graph.entity_resolution.normalization`."""
    reversed_key: Mapped[str] = mapped_column(_BY_BYTES)
    """The key reversed: its neighbours in the index have the same ending."""
    sorted_words_key: Mapped[str] = mapped_column(_BY_BYTES)
    """The key's words, longest first: its neighbours have the same words in another order."""
    name: Mapped[str]
    """The name as written."""
    # Names are inserted before the node, so that two concurrent writers of it conflict here.
    node_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        index=True,
    )
    step_id: Mapped[UUID | None]
    created_at: Mapped[Created]


class GraphMerge(Base):
    """A merge of one node into another, with what was moved, so that it can be undone."""

    __tablename__ = "graph_merges"
    __table_args__ = (Index("graph_merges_agent_made_idx", "agent_id", "made_at"),)

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    kept_id: Mapped[UUID] = mapped_column(index=True)
    merged_id: Mapped[UUID] = mapped_column(index=True)
    reason: Mapped[str]
    merged_node: Mapped[Json]
    """The row of the merged node."""
    journal: Mapped[Json]
    """See `shared.graph.entity_resolution.merge`."""
    made_by: Mapped[UUID | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    made_at: Mapped[Created]
    undone_at: Mapped[datetime | None]


class GraphDistinctPair(Base):
    """Two nodes that a person declared distinct, though their names are similar.

    They are no duplicate candidates as long as both have these names. Without foreign keys to the nodes, so that the
    decision holds again when a merge of one of them is undone.
    """

    __tablename__ = "graph_distinct_pairs"
    __table_args__ = (
        UniqueConstraint("agent_id", "one_id", "other_id"),
        CheckConstraint("one_id < other_id", name="ordered"),
        Index("graph_distinct_pairs_other_idx", "agent_id", "other_id"),
        Index("graph_distinct_pairs_agent_made_idx", "agent_id", "made_at"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    one_id: Mapped[UUID]
    other_id: Mapped[UUID]
    type: Mapped[str]
    one_name: Mapped[str]
    other_name: Mapped[str]
    made_by: Mapped[UUID | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    made_at: Mapped[Created]


class ElementNumber(Base):
    """The short id of a node or edge: `n17`, `e4`. See `shared.graph.short_ids`."""

    __tablename__ = "element_numbers"
    __table_args__ = (
        UniqueConstraint("agent_id", "element_id"),
        one_of("kind", ("n", "e")),
    )

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    element_id: Mapped[UUID]
    """It may have been merged or deleted since: its number is not used again."""
    kind: Mapped[str]


class GraphMove(Base):
    """A redirect from the id of a merged node or edge; deleted when the merge is undone."""

    __tablename__ = "graph_redirects"
    __table_args__ = (
        CheckConstraint("merged_id <> kept_id", name="elsewhere"),
        Index("graph_moves_merge_idx", "merge_id"),
        Index("graph_moves_kept_idx", "agent_id", "kept_id"),
    )

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    merged_id: Mapped[UUID] = mapped_column(primary_key=True)
    kept_id: Mapped[UUID]
    """May itself have been merged since."""
    merge_id: Mapped[UUID] = mapped_column(ForeignKey("graph_merges.id", ondelete="CASCADE"))
