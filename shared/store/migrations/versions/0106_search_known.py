"""how common each word is, which PostgreSQL knows of an index only after it has looked

Beside nothing that holds a table: it takes seconds where there are many nodes.

Revision ID: 0106
Revises: 0105
"""

from alembic import op

revision = "0106"
down_revision = "0105"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("analyze graph_nodes")


def downgrade() -> None:
    pass
