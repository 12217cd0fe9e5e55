"""A function that measures decided news, which is deleted with old iterations.

Revision ID: 0030
Revises: 0029
"""

from typing import Final

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

# The scheduler may not read the texts, so it cannot measure them itself. It learns nothing but the sum.
CREATE: Final = """create function news_bytes() returns bigint
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
select coalesce(sum(pg_column_size(news_items)), 0) from news_items where decided_at is not null
$$
"""


def upgrade() -> None:
    op.execute(CREATE)
