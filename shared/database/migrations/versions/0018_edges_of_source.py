"""edges of one node at their source, those touched last first, however many it has

Revision ID: 0018
Revises: 0017
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("graph_edges_source_updated_idx", "graph_edges", ["source_id", "updated_at"])


def downgrade() -> None:
    op.drop_index("graph_edges_source_updated_idx", table_name="graph_edges")
