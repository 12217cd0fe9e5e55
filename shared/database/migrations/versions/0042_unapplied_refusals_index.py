"""An index of refusals that their nodes, edges and conclusions do not follow yet.

Revision ID: 0042
Revises: 0041
"""

from sqlalchemy import text

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers(
        "entailment_verdicts_unapplied_idx",
        "entailment_verdicts",
        ["created_at", "evidence_id"],
        postgresql_where=text(
            "verdict <> 'supported' and (applied_at is null or due_at is not null)"
        ),
    )
