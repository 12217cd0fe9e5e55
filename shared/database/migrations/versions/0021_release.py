"""Everything that release 0.3.0 has in its database, whose last revision was this one.

Revision ID: 0021
Revises:
"""

from pathlib import Path

from alembic import op

revision = "0021"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Functions are created before the tables that they name.
    op.execute("set local check_function_bodies = off")
    cursor = op.get_bind().connection.cursor()
    cursor.execute(Path(__file__).with_suffix(".sql").read_text("utf-8"))
