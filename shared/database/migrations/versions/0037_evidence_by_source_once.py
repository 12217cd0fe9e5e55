"""one index of evidence by its source in place of two

Revision ID: 0037
Revises: 0036
"""

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None
contracts = "no release names an index, and `evidence_by_source_idx` begins with the same column"


def upgrade() -> None:
    op.drop_index("evidence_source_id_idx", "evidence")


def downgrade() -> None:
    op.create_index("evidence_source_id_idx", "evidence", ["source_id"])
