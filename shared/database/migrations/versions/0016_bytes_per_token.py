"""How many bytes of an agent's requests are a token.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "agents", sa.Column("bytes_per_token", sa.Float(), server_default="3.2", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("agents", "bytes_per_token")
