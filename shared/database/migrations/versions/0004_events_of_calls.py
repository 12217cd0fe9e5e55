"""The events of a phase run are stored in the rows of its calls, each with the answer that it follows.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
contracts = "no release has read `llm_interactions.events`"

# An event that names a call goes to that call, as do those that follow, until the next call.
_MOVE_TO_CALLS = """\
update calls set events = gathered.events
from (
  select call_id, jsonb_agg(event order by place) as events
  from (
    select event, place,
      cast(first_value(event ->> 'call_id') over answered as uuid) as call_id
    from (
      select runs.id as run_id, event, place,
        count(*) filter (where event ? 'call_id') over run as answer
      from llm_interactions runs
      cross join jsonb_array_elements(runs.events) with ordinality as each (event, place)
      window run as (partition by runs.id order by place)
    ) as stored
    where answer > 0
    window answered as (partition by run_id, answer order by place)
  ) as placed
  group by call_id
) as gathered
where calls.id = gathered.call_id
"""
_MOVE_TO_RUNS = """\
update llm_interactions set events = gathered.events
from (
  select interaction_id, jsonb_agg(event order by answered_at, id, place) as events
  from calls cross join jsonb_array_elements(calls.events) with ordinality as each (event, place)
  group by interaction_id
) as gathered
where llm_interactions.id = gathered.interaction_id
"""


def upgrade() -> None:
    _add_events_to("calls")
    op.execute(_MOVE_TO_CALLS)
    op.drop_column("llm_interactions", "events")


def downgrade() -> None:
    _add_events_to("llm_interactions")
    op.execute(_MOVE_TO_RUNS)
    op.drop_column("calls", "events")


def _add_events_to(table: str) -> None:
    op.add_column(
        table, sa.Column("events", postgresql.JSONB(), server_default="[]", nullable=False)
    )
