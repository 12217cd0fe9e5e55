"""Who says what evidence quotes.

Revision ID: 0040
Revises: 0039
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.journal import covering_added

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

KIND: Final = 7
COLUMNS: Final = (
    "id agent_id node_id edge_id source_id first_byte end_byte quote_sha256 claims valid_from valid_to as_of learned_at"
    " rules seal step_id"
)


def upgrade() -> None:
    op.add_column("evidence", sa.Column("speaker", sa.Text(), nullable=True))
    for statement in covering_added("evidence", KIND, COLUMNS, "speaker"):
        op.execute(statement)
