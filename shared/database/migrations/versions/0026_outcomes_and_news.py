"""Outcomes of investigation requests, and the state of each item of news.

Revision ID: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("investigation_requests", sa.Column("answered_with", JSONB(), nullable=True))
    op.add_column("investigation_requests", sa.Column("not_found_at", TIME, nullable=True))
    op.add_column("investigation_requests", sa.Column("not_found", sa.Text(), nullable=True))
    op.add_column("investigation_requests", sa.Column("reopened_at", TIME, nullable=True))
    op.create_table(
        "news_items",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("published", TIME, nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("offers", sa.Integer(), server_default="0", nullable=False),
        sa.Column("plans", sa.Integer(), server_default="0", nullable=False),
        sa.Column("planned_in", sa.Uuid(), nullable=True),
        sa.Column("found_at", TIME, nullable=False),
        sa.Column("decided_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.CheckConstraint("kind in ('page', 'document')", name="news_items_kind_check"),
        sa.CheckConstraint(
            "state in ('open', 'planned', 'read', 'skipped', 'expired')",
            name="news_items_state_check",
        ),
    )
    op.create_index("news_items_agent_idx", "news_items", ["agent_id", "found_at", "id"])
    op.create_index(
        "news_items_waiting_idx",
        "news_items",
        ["agent_id"],
        postgresql_where=sa.text("decided_at is null"),
    )
