"""Reservations of steps, for all their next calls.

Revision ID: 0031
Revises: 0030
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

USD: Final = sa.Numeric(14, 8)
# Also for an earlier version, which ends a step without knowing of its reservation. The agent is locked first, as always.
SETTLE: Final = """create function settle_step() returns trigger language plpgsql as $$
declare budget uuid;
begin
  foreach budget in array array[old.agent_id, '00000000-0000-0000-0000-000000000000'] loop
    update budget_days
    set spent_usd = spent_usd + old.spent_usd, spent_calls = spent_calls + old.spent_calls,
      reserved_usd = reserved_usd - old.spent_usd - old.reserved_usd,
      reserved_calls = reserved_calls - old.spent_calls - old.reserved_calls
    where scope = budget and day = old.reserved_on;
  end loop;
  new.reserved_on = null;
  new.reserved_usd = 0;
  new.reserved_calls = 0;
  new.spent_usd = 0;
  new.spent_calls = 0;
  return new;
end
$$;
create trigger settle_step before update of status, reserved_on on steps for each row
when (old.reserved_on is not null and (new.status <> 'running' or new.reserved_on is null))
execute function settle_step()
"""


def upgrade() -> None:
    op.add_column("steps", sa.Column("reserved_on", sa.Date()))
    for name in ("reserved", "spent"):
        op.add_column(
            "steps", sa.Column(f"{name}_usd", USD, server_default="0", nullable=False)
        )
        op.add_column(
            "steps", sa.Column(f"{name}_calls", sa.Integer(), server_default="0", nullable=False)
        )
    op.execute(SETTLE)
