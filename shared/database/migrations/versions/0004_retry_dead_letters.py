"""dead letters can be retried

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_ASKED = sa.text("retry_requested_at is not null")


def upgrade() -> None:
    now = sa.text("clock_timestamp()")
    op.add_column("dead_letters", sa.Column("kept_at", _MOMENT, server_default=now, nullable=False))
    op.execute("update dead_letters set kept_at = created_at")
    op.add_column("dead_letters", sa.Column("retry_requested_at", _MOMENT, nullable=True))
    op.create_index("dead_letters_kept_idx", "dead_letters", ["kept_at"], unique=False)
    op.create_index("dead_letters_retry_idx", "dead_letters", ["retry_requested_at"], unique=False, postgresql_where=_ASKED)
    op.add_column("steps", sa.Column("retry_requested_at", _MOMENT, nullable=True))
    op.add_column("steps", sa.Column("retried_epoch", sa.Integer(), server_default="0", nullable=False))
    op.create_index("steps_retry_idx", "steps", ["retry_requested_at"], unique=False, postgresql_where=_ASKED)


def downgrade() -> None:
    op.drop_index("steps_retry_idx", table_name="steps", postgresql_where=_ASKED)
    op.drop_column("steps", "retried_epoch")
    op.drop_column("steps", "retry_requested_at")
    op.drop_index("dead_letters_retry_idx", table_name="dead_letters", postgresql_where=_ASKED)
    op.drop_index("dead_letters_kept_idx", table_name="dead_letters")
    op.drop_column("dead_letters", "retry_requested_at")
    op.drop_column("dead_letters", "kept_at")
