"""what is known of an edge, what is true latest first

Revision ID: 0031
Revises: 0030
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("evidence_edge_as_of_idx", "evidence", ["edge_id", "as_of"])


def downgrade() -> None:
    op.drop_index("evidence_edge_as_of_idx", table_name="evidence")
