"""destinations, and the deliveries of inbox items to them

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.create_table(
        "destinations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("stopped_because", sa.Text(), nullable=True),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.CheckConstraint("kind in ('webhook', 'mail')", name=op.f("destinations_kind_check")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("destinations_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("destinations_owner_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("destinations_pkey")),
        sa.UniqueConstraint(
            "owner_id", "kind", "address", "agent_id",
            name=op.f("destinations_owner_id_kind_address_agent_id_key"), postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_index(op.f("destinations_agent_id_idx"), "destinations", ["agent_id"])
    op.create_index("destinations_owner_idx", "destinations", ["owner_id", "created_at"])
    op.create_table(
        "webhook_secrets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("destination_id", sa.Uuid(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["destination_id"], ["destinations.id"], name=op.f("webhook_secrets_destination_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("webhook_secrets_pkey")),
    )
    op.create_index(op.f("webhook_secrets_destination_id_idx"), "webhook_secrets", ["destination_id"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("destination_id", sa.Uuid(), nullable=False),
        sa.Column("inbox_item_id", sa.Uuid(), nullable=True),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_attempt_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("give_up_at", _MOMENT, nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("ended_at", _MOMENT, nullable=True),
        sa.Column("retry_requested_at", _MOMENT, nullable=True),
        sa.CheckConstraint("status in ('pending', 'delivered', 'failed')", name=op.f("deliveries_status_check")),
        sa.ForeignKeyConstraint(["destination_id"], ["destinations.id"], name=op.f("deliveries_destination_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["inbox_item_id"], ["inbox_items.id"], name=op.f("deliveries_inbox_item_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("deliveries_pkey")),
        sa.UniqueConstraint("destination_id", "inbox_item_id", name=op.f("deliveries_destination_id_inbox_item_id_key")),
    )
    op.create_index("deliveries_destination_idx", "deliveries", ["destination_id", "created_at"])
    op.create_index("deliveries_due_idx", "deliveries", ["next_attempt_at"], postgresql_where=sa.text("status = 'pending'"))
    op.create_index(op.f("deliveries_inbox_item_id_idx"), "deliveries", ["inbox_item_id"])
    op.create_index("deliveries_retry_idx", "deliveries", ["retry_requested_at"], postgresql_where=sa.text("retry_requested_at is not null"))
    # A default that is dropped at once: it stands in every row that there is, and none of them is rewritten for it.
    # What came before there were destinations counts as dispatched.
    dispatched = sa.Column("dispatched_at", _MOMENT, server_default=sa.text("now()"), nullable=True)
    op.add_column("inbox_items", dispatched)
    op.alter_column("inbox_items", "dispatched_at", server_default=None)


def downgrade() -> None:
    op.drop_column("inbox_items", "dispatched_at")
    op.drop_table("deliveries")
    op.drop_table("webhook_secrets")
    op.drop_table("destinations")
