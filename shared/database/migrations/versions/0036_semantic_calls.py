"""embeddings that an agent has paid for, by what they are of

Revision ID: 0036
Revises: 0035
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers(
        "calls_embedded_idx",
        "calls",
        ["agent_id", "request_hash"],
        postgresql_where=sa.text("request ? 'embeds'"),
    )


def downgrade() -> None:
    op.drop_index("calls_embedded_idx", table_name="calls")
