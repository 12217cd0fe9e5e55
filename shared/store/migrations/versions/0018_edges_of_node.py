"""edges of one node, those touched last first, however many it has

Revision ID: 0018
Revises: 0017
"""

from alembic import op

from shared.store.migrations.indexes import create_index_beside_writers

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_ENDS = ("source", "target")


def upgrade() -> None:
    for end in _ENDS:
        create_index_beside_writers(f"graph_edges_{end}_updated_idx", "graph_edges", [f"{end}_id", "updated_at"])
    for end in _ENDS:
        op.drop_index(f"graph_edges_{end}_id_idx", table_name="graph_edges", if_exists=True)


def downgrade() -> None:
    for end in _ENDS:
        op.create_index(f"graph_edges_{end}_id_idx", "graph_edges", [f"{end}_id"])
        op.drop_index(f"graph_edges_{end}_updated_idx", table_name="graph_edges")
