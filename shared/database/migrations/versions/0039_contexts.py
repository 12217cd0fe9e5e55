"""what several phases are shown of a graph stands once, and their runs refer to it

Revision ID: 0039
Revises: 0038
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "contexts",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("contexts_agent_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "sha256", name=op.f("contexts_pkey")),
    )
    op.add_column("llm_interactions", sa.Column("context_sha256", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.execute(
        "update llm_interactions set request = jsonb_build_object('tools', request -> 'tools', 'messages',"
        " jsonb_build_array(jsonb_build_object('role', 'user', 'content',"
        " (request -> 'told' ->> 0) || contexts.text || (request -> 'told' ->> 1))))"
        " from contexts where request ? 'told'"
        " and contexts.agent_id = llm_interactions.agent_id and contexts.sha256 = context_sha256"
    )
    op.drop_column("llm_interactions", "context_sha256")
    op.drop_table("contexts")
