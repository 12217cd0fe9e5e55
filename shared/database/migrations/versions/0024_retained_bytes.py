"""Limits of retention in bytes, and a function that measures what rows take up.

Revision ID: 0024
Revises: 0023
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

SAMPLED_BLOCKS: Final = 4000
"""Of each table, 32 MB; a smaller table is read as a whole. What is stored in TOAST is not read: its size is known."""
TEXTS: Final = {
    "llm_interactions": "system_prompt request message",
    "calls": "answer events failures",
}
WHOLE: Final = ""
"""All columns."""
MEASURED: Final = {
    "dead_letters": {"dead_letters": WHOLE},
    "transcripts": TEXTS,
    "iterations": dict.fromkeys(
        ("iterations", "steps", "llm_interactions", "calls", "pinned_contexts"), WHOLE
    ),
    "contexts": {"contexts": WHOLE},
    "pages": {"sources": WHOLE},
    "deliveries": {"deliveries": WHOLE},
    "notices": {"inbox_items": WHOLE},
    "requests": {"investigation_requests": WHOLE},
}
_PARTS: Final = ", ".join(
    f"('{kind}', '{table}', '{columns}')"
    for kind, tables in MEASURED.items()
    for table, columns in tables.items()
)
# The scheduler may not read texts, so it cannot measure them itself. It learns nothing but the sum.
CREATE: Final = f"""create function retained_bytes(of_kind text) returns bigint
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  part record;
  share float;
  measured numeric;
  total numeric := 0;
begin
  for part in
    select format('public.%I', name)::regclass as relation, string_to_array(columns, ' ') as columns
    from (values {_PARTS}) as parts (kind, name, columns) where kind = of_kind
  loop
    share := least(1, {SAMPLED_BLOCKS}.0 * current_setting('block_size')::int / greatest(1, pg_relation_size(part.relation)));
    execute (
      select format('select coalesce(sum(%s), 0) from %s tablesample system (%s)',
        string_agg(format('coalesce(pg_column_size(%I), 0)', attname), ' + '), part.relation, share * 100)
      from pg_attribute
      where attrelid = part.relation and attnum > 0 and not attisdropped
        and (part.columns = '{{}}' or attname = any(part.columns))
    ) into measured;
    total := total + measured / share::numeric;
  end loop;
  return total;
end
$$
"""


def upgrade() -> None:
    for name in ("max_bytes", "bytes"):
        op.add_column("retention", sa.Column(name, sa.BigInteger(), nullable=True))
    op.execute(CREATE)
