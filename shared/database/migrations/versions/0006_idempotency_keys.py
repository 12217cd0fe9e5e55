"""what was made under a key of its maker's

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("idempotency_keys_owner_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("owner_id", "key", name=op.f("idempotency_keys_pkey")),
    )
    op.create_index("idempotency_keys_created_idx", "idempotency_keys", ["created_at"], unique=False)


def downgrade() -> None:
    op.drop_index("idempotency_keys_created_idx", table_name="idempotency_keys")
    op.drop_table("idempotency_keys")
