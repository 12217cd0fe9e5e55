"""words of nodes are gathered before they enter the search index, in a list that is short enough to be gone through

Revision ID: 0040
Revises: 0039
"""

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter index graph_nodes_search_idx set (fastupdate = on, gin_pending_list_limit = 64)")


def downgrade() -> None:
    # What is still gathered stays so until the table is vacuumed next, and is found all the same.
    op.execute("alter index graph_nodes_search_idx set (fastupdate = off)")
    op.execute("alter index graph_nodes_search_idx reset (gin_pending_list_limit)")
