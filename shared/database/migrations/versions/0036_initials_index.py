"""An index of the initials of names, by which "IBM" finds "International Business Machines".

Revision ID: 0036
Revises: 0035
"""

from typing import Final

from sqlalchemy import text

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


INITIALS: Final = (
    "regexp_replace(regexp_replace(' ' || key, ' (of|the|and|for|de|der|des|du|di|la|und|et)(?= )', '', 'g'),"
    r" '\s*(\S)\S*', '\1', 'g')"
)


def upgrade() -> None:
    create_index_beside_writers(
        "graph_names_initials_idx",
        "graph_names",
        ["agent_id", "type", text(INITIALS)],
        postgresql_where=text("key like '% % %'"),
    )
