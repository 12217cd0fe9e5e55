"""Retention: what deleted calls cost by day, which iterations were deleted, and when each kind of row is deleted next.

Revision ID: 0023
Revises: 0022
"""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from shared.database.migrations.journal import covering

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

COUNTS: Final = ("calls", "answered", "attempts", "unpriced", "answered_unpriced")
TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "system_tokens",
    "tools_tokens",
    "context_tokens",
    "results_tokens",
)
COVERED: Final = {
    "pruned_iterations": (15, "agent_id numbers transcripts calls updated_at"),
    "call_days": (
        16,
        f"agent_id day kind phase model {' '.join(COUNTS)} {' '.join(TOKENS)} cost_usd assumed_usd",
    ),
}
PRUNED: Final = ("calls", "contexts", "iterations", "llm_interactions", "pinned_contexts", "steps")
"""Tables whose rows are mostly deleted in the end. Their space is reused sooner than after changes of a fifth of it."""


def upgrade() -> None:
    op.add_column(
        "iterations",
        sa.Column("transcripts_deleted_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_table(
        "call_days",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*COUNTS, *TOKENS)),
        *(
            sa.Column(name, sa.Numeric(20, 8), nullable=False)
            for name in ("cost_usd", "assumed_usd")
        ),
        sa.CheckConstraint("kind in ('llm', 'search')", name=op.f("call_days_kind_check")),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("call_days_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "agent_id", "day", "kind", "phase", "model", name=op.f("call_days_pkey")
        ),
    )
    op.create_table(
        "pruned_iterations",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        *(
            sa.Column(
                name, postgresql.INT4MULTIRANGE(), server_default=sa.text("'{}'"), nullable=False
            )
            for name in ("numbers", "transcripts")
        ),
        sa.Column("calls", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("pruned_iterations_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("pruned_iterations_pkey")),
    )
    op.create_table(
        "retention",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("days", sa.Float(), nullable=True),
        *(
            sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)
            for name in ("last_rows", "all_rows")
        ),
        *(
            sa.Column(name, sa.DateTime(timezone=True), nullable=True)
            for name in ("started_at", "ended_at", "pruned_at", "oldest_at")
        ),
        sa.Column(
            "next_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("kind", name=op.f("retention_pkey")),
    )
    for table, (kind, columns) in COVERED.items():
        for statement in covering(table, kind, columns):
            op.execute(statement)
    for table in PRUNED:
        op.execute(
            f"alter table {table} set (autovacuum_vacuum_scale_factor = 0.05,"
            " toast.autovacuum_vacuum_scale_factor = 0.05)"
        )
