"""An index that covers what cost queries sum up, with the cached tokens and the parts of requests.

Revision ID: 0015
Revises: 0014
"""

from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

NAME = "calls_costs_idx"
KEY = ["agent_id", "started_at"]
HEAD = ["kind", "phase", "model", "attempts", "input_tokens", "output_tokens"]
ADDED = [
    "cached_tokens",
    "reasoning_tokens",
    "system_tokens",
    "tools_tokens",
    "context_tokens",
    "results_tokens",
]
TAIL = ["cost_usd", "assumed_usd"]


def upgrade() -> None:
    """Replaces the index of the first revision. Meanwhile cost queries read the rows."""
    create_index_beside_writers(NAME, "calls", KEY, postgresql_include=[*HEAD, *ADDED, *TAIL])


def downgrade() -> None:
    op.drop_index(NAME, "calls")
    op.create_index(NAME, "calls", KEY, postgresql_include=[*HEAD, *TAIL])
