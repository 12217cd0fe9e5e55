"""calls with something reserved, by agent

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    reserved = sa.text("reserved_on is not null")
    create_index_beside_writers("calls_reserved_idx", "calls", ["agent_id"], postgresql_where=reserved)


def downgrade() -> None:
    op.drop_index("calls_reserved_idx", table_name="calls")
