"""the indexes of edges by their ends alone, which those by end and time answer for

Revision ID: 0020
Revises: 0019
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None
contracts = "no release names an index, and the two before this one find the same"

_ENDS = ("source", "target")


def upgrade() -> None:
    for end in _ENDS:
        op.drop_index(f"graph_edges_{end}_id_idx", table_name="graph_edges")


def downgrade() -> None:
    for end in _ENDS:
        op.create_index(f"graph_edges_{end}_id_idx", "graph_edges", [f"{end}_id"])
