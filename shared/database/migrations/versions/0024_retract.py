"""pages that are not believed any more, and what rests on them

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    for table in ("graph_nodes", "graph_edges"):
        op.add_column(table, sa.Column("unsupported_since", _MOMENT, nullable=True))
    op.create_table(
        "retractions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column("because", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("restored_at", _MOMENT, nullable=True),
        sa.Column("due_at", _MOMENT, nullable=True),
        _of("retractions", "agent_id", "agents"),
        _of("retractions", "source_id", "sources"),
        sa.PrimaryKeyConstraint("id", name=op.f("retractions_pkey")),
    )
    op.create_index("retractions_agent_idx", "retractions", ["agent_id", "created_at"])
    op.create_index(op.f("retractions_source_id_idx"), "retractions", ["source_id"])
    op.create_index("retractions_due_idx", "retractions", ["due_at"], postgresql_where=sa.text("due_at is not null"))
    op.create_table(
        "retracted_sources",
        sa.Column("retraction_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("is_due", sa.Boolean(), nullable=False),
        sa.Column("through", sa.Uuid(), nullable=True),
        _of("retracted_sources", "retraction_id", "retractions"),
        _of("retracted_sources", "source_id", "sources"),
        sa.PrimaryKeyConstraint("retraction_id", "source_id", name=op.f("retracted_sources_pkey")),
    )
    op.create_index(op.f("retracted_sources_source_id_idx"), "retracted_sources", ["source_id"])
    op.create_table(
        "citations",
        sa.Column("conclusion_id", sa.Uuid(), nullable=False),
        sa.Column("cited_id", sa.Uuid(), nullable=False),
        _of("citations", "conclusion_id", "graph_nodes"),
        sa.PrimaryKeyConstraint("conclusion_id", "cited_id", name=op.f("citations_pkey")),
    )
    op.create_index(op.f("citations_cited_id_idx"), "citations", ["cited_id"])
    op.create_table(
        "doubts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("conclusion_id", sa.Uuid(), nullable=False),
        sa.Column("thing_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("since", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("cleared_at", _MOMENT, nullable=True),
        _of("doubts", "conclusion_id", "graph_nodes"),
        _of("doubts", "source_id", "sources"),
        sa.PrimaryKeyConstraint("id", name=op.f("doubts_pkey")),
    )
    for column in ("conclusion_id", "thing_id", "source_id"):
        op.create_index(op.f(f"doubts_{column}_idx"), "doubts", [column])
    op.create_index(
        "doubts_open_idx", "doubts", ["conclusion_id", "since"], postgresql_where=sa.text("cleared_at is null")
    )


def downgrade() -> None:
    for table in ("doubts", "citations", "retracted_sources", "retractions"):
        op.drop_table(table)
    for table in ("graph_nodes", "graph_edges"):
        op.drop_column(table, "unsupported_since")


def _of(table: str, column: str, whose: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{whose}.id"], name=op.f(f"{table}_{column}_fkey"), ondelete="CASCADE")
