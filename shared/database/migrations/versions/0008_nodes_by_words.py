"""nodes by the words of their names

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("graph_nodes_name_words_idx", "graph_nodes", [sa.text("to_tsvector('simple'::regconfig, name)")], postgresql_using="gin")


def downgrade() -> None:
    op.drop_index("graph_nodes_name_words_idx", table_name="graph_nodes")
