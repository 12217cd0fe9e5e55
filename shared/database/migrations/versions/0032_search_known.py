"""how common each word is, which PostgreSQL knows of an index only after it has looked

Beside nothing that holds a table: it takes seconds where there are many nodes.

Revision ID: 0032
Revises: 0031
"""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("analyze graph_nodes")


def downgrade() -> None:
    pass
