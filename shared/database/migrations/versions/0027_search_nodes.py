"""nodes by the words of their names and properties, and by names that are misspelled

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers(
        "graph_nodes_search_idx",
        "graph_nodes",
        [
            "agent_id",
            "type",
            sa.text("to_tsvector('simple'::regconfig, name)"),
            "name",
            sa.text("jsonb_to_tsvector('simple'::regconfig, properties, '[\"string\", \"numeric\"]'::jsonb)"),
        ],
        postgresql_using="gin",
        postgresql_ops={"name": "gin_trgm_ops"},
        postgresql_with={"fastupdate": "off"},
    )


def downgrade() -> None:
    op.drop_index("graph_nodes_search_idx", table_name="graph_nodes")
