"""Verdicts on a sample of the evidence, which the journal covers too, and their budget.

Revision ID: 0008
Revises: 0007
"""

from importlib import import_module

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLE = "entailment_verdicts"
PHASES = (
    "'observer', 'knowledge_acquisition', 'graph_construction', 'analysis_generation', 'advice_generation',"
    " 'entailment_check', 'conversation', 'configuration'"
)


def upgrade() -> None:
    journal = import_module("shared.database.migrations.versions.0007_signed_journal")
    op.create_table(
        TABLE,
        sa.Column("evidence_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Uuid(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "verdict in ('supported', 'contradicted', 'not_stated')",
            name=op.f("entailment_verdicts_verdict_check"),
        ),
        sa.ForeignKeyConstraint(
            ["evidence_id"],
            ["evidence.id"],
            name=op.f("entailment_verdicts_evidence_id_fkey"),
            ondelete="CASCADE",
            onupdate="CASCADE",
        ),
        sa.PrimaryKeyConstraint("evidence_id", name=op.f("entailment_verdicts_pkey")),
    )
    op.create_index("entailment_verdicts_agent_idx", TABLE, ["agent_id", "verdict"])
    op.create_index(
        "entailment_verdicts_due_idx",
        TABLE,
        ["due_at"],
        postgresql_where=sa.text("due_at is not null"),
    )
    covered = journal.Covered(
        14, "evidence_id agent_id verdict reason model call_id step_id created_at due_at"
    )
    for statement in journal.covering(TABLE, covered):
        op.execute(statement)
    # It accepts more than before, so the rows that are there need not be checked again.
    op.execute(
        "alter table llm_interactions drop constraint llm_interactions_phase_check,"
        f" add constraint llm_interactions_phase_check check (phase in ({PHASES})) not valid"
    )
    op.add_column(
        "agents",
        sa.Column(
            "entailment_usd_per_day", sa.Numeric(14, 8), server_default="0", nullable=False
        ),
    )
    op.add_column(
        "agents",
        sa.Column("entailment_share", sa.Float(), server_default="0.05", nullable=False),
    )


def downgrade() -> None:
    op.drop_column("agents", "entailment_share")
    op.drop_column("agents", "entailment_usd_per_day")
    # The phase check stays: phase runs of the new phase may be stored.
    op.execute(f"drop function graph_leaf({TABLE})")
    op.drop_table(TABLE)
    op.execute(f"drop function note_{TABLE}()")
