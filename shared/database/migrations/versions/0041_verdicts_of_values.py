"""A verdict for each value of evidence, and whether it has been applied to its node or edge.

Revision ID: 0041
Revises: 0040
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.journal import covering_added

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

TABLE: Final = "entailment_verdicts"
KIND: Final = 14
COLUMNS: Final = "evidence_id agent_id verdict reason model call_id step_id created_at due_at"

WIDER_KEY: Final = (
    "alter table entailment_verdicts drop constraint entailment_verdicts_pkey,"
    " add constraint entailment_verdicts_value_key unique nulls not distinct (evidence_id, property)"
)


def upgrade() -> None:
    op.add_column(TABLE, sa.Column("property", sa.Text(), nullable=True))
    # Nothing has applied those of earlier releases, so that all of them are due.
    op.add_column(TABLE, sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True))
    for statement in covering_added(TABLE, KIND, COLUMNS, "prompt_version property"):
        op.execute(statement)
    # The key that services of the release before know is permitted by this one: they leave the property null, and insert with
    # "on conflict do nothing".
    op.execute(WIDER_KEY)
