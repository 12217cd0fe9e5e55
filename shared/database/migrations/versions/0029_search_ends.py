"""edges by both their ends

Revision ID: 0029
Revises: 0028
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("graph_edges_ends_idx", "graph_edges", ["source_id", "target_id"])


def downgrade() -> None:
    op.drop_index("graph_edges_ends_idx", table_name="graph_edges")
