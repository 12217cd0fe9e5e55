"""The index of the words of nodes, without the trigrams of their names.

Revision ID: 0033
Revises: 0032
"""

from alembic import op
from sqlalchemy import text

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Until it is made, a search reads all nodes of its agent.
    create_index_beside_writers(
        "graph_nodes_search_idx",
        "graph_nodes",
        [
            "agent_id",
            "type",
            text("to_tsvector('simple'::regconfig, name)"),
            text(
                "jsonb_to_tsvector('simple'::regconfig, properties, '[\"string\", \"numeric\"]'::jsonb)"
            ),
        ],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "on", "gin_pending_list_limit": "64"},
    )
    # The estimates of how many nodes have a word are those of the index.
    op.execute("analyze graph_nodes")
