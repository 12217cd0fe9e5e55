"""What a retraction covers, so that it holds for what is read later: a page in all spellings, or a site.

Revision ID: 0038
Revises: 0037
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.journal import covering_added

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

KIND: Final = 10
COLUMNS: Final = "id agent_id url source_id reason created_at restored_at due_at"
TRACKING: Final = (
    r"&(utm_\w+|(g|d|fb|y|tw|tt)clid|msclkid|gbraid|wbraid|mc_[ce]id|igshid|mkt_tok)(=[^&]*)?(?=&|$)"
)
# What `shared.urls.page_key` returns for the address. A retraction of a single version covers the page if no other version
# of it counts.
FILL: Final = rf"""
update retractions set covers = case when parts is null then address else
    regexp_replace(lower(parts[2]), case lower(parts[1]) when 'http' then '[:]80$' else '[:]443$' end, '')
    || rtrim(parts[3], '/') || regexp_replace(
      regexp_replace(
        regexp_replace('&' || substr(coalesce(parts[4], ''), 2), '{TRACKING}', '', 'gi'), '^&+', '?'),
      '^\?$', '') end
from (
  select id as retraction_id, url as address,
    regexp_match(trim(url), '^(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?', 'i') as parts
  from retractions
) as split
where id = retraction_id and covers is null and restored_at is null and (source_id is null or not exists (
  select from sources
  where sources.agent_id = retractions.agent_id and sources.url = retractions.url and retracted_at is null))
"""


def upgrade() -> None:
    op.add_column("retractions", sa.Column("covers", sa.Text(), nullable=True))
    for statement in covering_added("retractions", KIND, COLUMNS, "covers"):
        op.execute(statement)
    op.execute(FILL.strip())
