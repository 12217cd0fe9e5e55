"""Readings of conclusions: verdicts on their sentences, the version of the prompt, and a cap that may be absent.

Revision ID: 0035
Revises: 0034
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.journal import covering, covering_added

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

TIME: Final = sa.DateTime(timezone=True)
PHASES: Final = (
    "observer",
    "knowledge_acquisition",
    "graph_construction",
    "analysis_generation",
    "advice_generation",
    "verification",
    "conversation",
    "configuration",
    # Of services of the release before.
    "entailment_check",
)


def upgrade() -> None:
    phases = ", ".join(f"'{phase}'" for phase in PHASES)
    op.execute(
        "alter table llm_interactions drop constraint llm_interactions_phase_check,"
        f" add constraint llm_interactions_phase_check check (phase in ({phases})) not valid"
    )
    op.add_column("agents", sa.Column("verification_usd_per_day", sa.Numeric(14, 8), nullable=True))
    op.execute(
        "update agents set verification_usd_per_day = entailment_usd_per_day where entailment_usd_per_day > 0"
    )
    op.add_column(
        "entailment_verdicts", sa.Column("prompt_version", sa.SmallInteger(), nullable=True)
    )
    for statement in covering_added(
        "entailment_verdicts",
        14,
        "evidence_id agent_id verdict reason model call_id step_id created_at due_at",
        "prompt_version",
    ):
        op.execute(statement)
    op.create_table(
        "conclusion_verdicts",
        sa.Column("conclusion_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_version", sa.SmallInteger(), nullable=False),
        sa.Column("call_id", sa.Uuid(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.func.clock_timestamp(), nullable=False),
        sa.ForeignKeyConstraint(["conclusion_id"], ["graph_nodes.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("conclusion_id", "number"),
        sa.CheckConstraint(
            "kind in ('states', 'compares', 'infers', 'expects')",
            name="conclusion_verdicts_kind_check",
        ),
        sa.CheckConstraint(
            "verdict in ('supported', 'contradicted', 'not_stated', 'follows', 'plausible', 'does_not_follow')",
            name="conclusion_verdicts_verdict_check",
        ),
    )
    op.create_index("conclusion_verdicts_agent_idx", "conclusion_verdicts", ["agent_id"])
    for statement in covering(
        "conclusion_verdicts",
        18,
        "conclusion_id number agent_id sentence kind verdict reason model prompt_version call_id step_id created_at",
    ):
        op.execute(statement)
