"""what searching needs of PostgreSQL: names by their trigrams, and ids in indexes of words

Both extensions come with PostgreSQL and are trusted: the database's owner may make them. Where a service of others keeps a
list of allowed extensions, they must be on it.

Revision ID: 0026
Revises: 0025
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_EXTENSIONS = ("pg_trgm", "btree_gin")


def upgrade() -> None:
    for extension in _EXTENSIONS:
        op.execute(f"create extension if not exists {extension}")


def downgrade() -> None:
    for extension in reversed(_EXTENSIONS):
        op.execute(f"drop extension if exists {extension}")
