"""An index of its own for the trigrams of names.

Revision ID: 0032
Revises: 0031
"""

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers(
        "graph_nodes_similar_idx",
        "graph_nodes",
        ["agent_id", "name"],
        postgresql_using="gin",
        postgresql_ops={"name": "gin_trgm_ops"},
        postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "1024"},
    )
