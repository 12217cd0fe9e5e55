"""the indexes that those of searching answer for

Done again, a downgrade holds up writers while it makes them anew.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None
contracts = "no release names an index, and those before this one find the same"


def upgrade() -> None:
    op.drop_index("graph_nodes_name_words_idx", table_name="graph_nodes")
    op.drop_index("evidence_node_id_idx", table_name="evidence")
    op.drop_index("evidence_edge_id_idx", table_name="evidence")


def downgrade() -> None:
    op.create_index("evidence_edge_id_idx", "evidence", ["edge_id"])
    op.create_index("evidence_node_id_idx", "evidence", ["node_id"])
    name_words = sa.text("to_tsvector('simple'::regconfig, name)")
    op.create_index("graph_nodes_name_words_idx", "graph_nodes", [name_words], postgresql_using="gin")
