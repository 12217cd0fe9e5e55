"""edges of one type, those touched last first

Revision ID: 0007
Revises: 0006
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("graph_edges_agent_type_updated_idx", "graph_edges", ["agent_id", "type", "updated_at"])


def downgrade() -> None:
    op.drop_index("graph_edges_agent_type_updated_idx", table_name="graph_edges")
