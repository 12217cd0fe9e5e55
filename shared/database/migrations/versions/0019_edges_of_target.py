"""edges of one node at their target, those touched last first, however many it has

Revision ID: 0019
Revises: 0018
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("graph_edges_target_updated_idx", "graph_edges", ["target_id", "updated_at"])


def downgrade() -> None:
    op.drop_index("graph_edges_target_updated_idx", table_name="graph_edges")
