"""An index of evidence whose validity ends, by which an iteration finds out what has come due.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

NAME = "evidence_valid_to_idx"


def upgrade() -> None:
    create_index_beside_writers(
        NAME,
        "evidence",
        ["agent_id", "valid_to"],
        postgresql_where=sa.text("valid_to is not null"),
    )


def downgrade() -> None:
    op.drop_index(NAME, "evidence")
