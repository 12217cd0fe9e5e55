"""what calls cost, by agent and time, without reading the calls

Revision ID: 0015
Revises: 0014
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_TOLD = ["kind", "phase", "model", "sendings", "input_tokens", "output_tokens", "cost_usd", "presumed_usd"]


def upgrade() -> None:
    create_index_beside_writers("calls_costs_idx", "calls", ["agent_id", "started_at"], postgresql_include=_TOLD)


def downgrade() -> None:
    op.drop_index("calls_costs_idx", table_name="calls")
