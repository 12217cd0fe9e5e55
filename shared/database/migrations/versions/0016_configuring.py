"""agents are configured from their mission, and their prompts have a history

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("prompts_version", sa.Integer(), server_default="0", nullable=False))
    known = sa.CheckConstraint("status in ('configuring', 'ready', 'failed')", name=op.f("agents_status_check"))
    op.add_column("agents", sa.Column("configurations_ordered", sa.Integer(), server_default="0", nullable=False))
    op.add_column("agents", sa.Column("status", sa.Text(), known, server_default="ready", nullable=False))
    op.add_column("agents", sa.Column("fault", sa.Text(), nullable=True))
    op.add_column("graph_edge_types", sa.Column("example_properties", postgresql.JSONB(), server_default="{}", nullable=False))
    op.create_table(
        "prompt_versions",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.CheckConstraint(
            "phase in ('observer', 'knowledge_acquisition', 'graph_construction', 'analysis_generation',"
            " 'advice_generation', 'conversation')",
            name=op.f("prompt_versions_phase_check"),
        ),
        sa.CheckConstraint("made_by in ('configuration', 'owner')", name=op.f("prompt_versions_made_by_check")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("prompt_versions_agent_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "version", "phase", name=op.f("prompt_versions_pkey")),
    )


def downgrade() -> None:
    op.drop_table("prompt_versions")
    op.drop_column("graph_edge_types", "example_properties")
    op.drop_column("agents", "fault")
    op.drop_column("agents", "status")
    op.drop_column("agents", "configurations_ordered")
    op.drop_column("agents", "prompts_version")
