"""nodes by their whole names, in small letters

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("graph_nodes_agent_name_idx", "graph_nodes", ["agent_id", sa.text("lower(name)")])


def downgrade() -> None:
    op.drop_index("graph_nodes_agent_name_idx", table_name="graph_nodes")
