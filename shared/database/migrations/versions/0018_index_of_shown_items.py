"""An index of inbox items by the time at which they are shown: when they were made, or their snooze ended.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

NAME = "inbox_items_shown_idx"


def upgrade() -> None:
    create_index_beside_writers(
        NAME, "inbox_items", ["owner_id", sa.text("coalesce(snoozed_until, created_at)"), "id"]
    )


def downgrade() -> None:
    op.drop_index(NAME, "inbox_items")
