"""what is known of a node, what is true latest first

Revision ID: 0030
Revises: 0029
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("evidence_node_as_of_idx", "evidence", ["node_id", "as_of"])


def downgrade() -> None:
    op.drop_index("evidence_node_as_of_idx", table_name="evidence")
