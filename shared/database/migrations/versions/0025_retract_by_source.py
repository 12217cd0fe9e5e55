"""evidence of one source in an order that can be gone on with

Revision ID: 0025
Revises: 0024
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("evidence_by_source_idx", "evidence", ["source_id", "id"])


def downgrade() -> None:
    op.drop_index("evidence_by_source_idx", "evidence")
