"""one index of an agent's calls in place of two

Revision ID: 0038
Revises: 0037
"""

from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None
contracts = "no release names an index, and `calls_costs_idx` begins with the same columns"


def upgrade() -> None:
    op.drop_index("calls_agent_idx", "calls")


def downgrade() -> None:
    op.create_index("calls_agent_idx", "calls", ["agent_id", "started_at"])
