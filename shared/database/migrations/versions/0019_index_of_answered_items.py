"""An index of the inbox items that the owner answered, which an agent's phases are shown.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

NAME = "inbox_items_answered_idx"


def upgrade() -> None:
    create_index_beside_writers(
        NAME,
        "inbox_items",
        ["agent_id", "answered_at"],
        postgresql_where=sa.text("answered_at is not null"),
    )


def downgrade() -> None:
    op.drop_index(NAME, "inbox_items")
